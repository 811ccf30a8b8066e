// An icicle on the timeline's canvas: the same pixel buffer, colours and view, with accumulated time instead of the clock.

import { cut } from "./chain.js";
import { placeTree, walkTree } from "./icicle_layout.js";
import { Raster } from "./raster.js";
import { SLICE_HEIGHT } from "./rows.js";
import { THEMES, groundPixel, pixelsOf } from "./theme.js";
import { formatDuration } from "./time.js";
import { View } from "./view.js";

const LABEL_FONT = '10.5px "JetBrains Mono", ui-monospace, monospace';
const LETTER_PX = 6.35;
const ROW = SLICE_HEIGHT + 3;
const LEFT = 8;

export class Icicle {
  /** @param {(node: number) => void} chosen Told the node that was clicked or that Enter was pressed on. */
  constructor(element, theme, chosen) {
    Object.assign(this, { element, theme, chosen, picked: -1, hover: -1, scroll: 0 });
    element.replaceChildren();
    this.canvas = element.appendChild(document.createElement("canvas"));
    this.tip = element.appendChild(document.createElement("div"));
    this.tip.className = "timeline-tip";
    this.tip.hidden = true;
    this.spoken = element.appendChild(document.createElement("div"));
    this.spoken.className = "timeline-spoken";
    this.spoken.setAttribute("aria-live", "polite");
    element.tabIndex = 0;
    element.setAttribute("role", "application");
    element.setAttribute("aria-label", "Icicle of time. Arrow keys walk it, Enter opens a node, Escape shows everything.");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.raster = new Raster(this.context);
    this.listen();
    this.setTree({ names: [], categories: [], parent: [], total: [], self: [] });
  }

  setTree(tree) {
    this.tree = tree;
    this.placed = placeTree(tree);
    this.view = new View(Math.max(this.placed.whole, 20));
    this.picked = this.hover = -1;
    const codes = [...new Set(tree.categories)];
    const known = new Map();
    const names = tree.names.map((name) => known.get(name) ?? known.set(name, known.size).get(name));
    const n = tree.names.length;
    this.tile = {
      n, base: 0, start: this.placed.start, dur: tree.total, row: this.placed.row, name: names, count: new Uint8Array(n),
      category: tree.categories.map((category) => codes.indexOf(category)), cover: new Float32Array(n).fill(1),
    };
    this.codes = codes;
    this.resize();
  }

  listen() {
    const gone = new AbortController();
    const on = (name, act, more = {}) => this.element.addEventListener(name, act, { signal: gone.signal, ...more });
    on("pointermove", (event) => this.point(event));
    on("pointerleave", () => this.point(null));
    on("click", (event) => this.pick(this.at(event)));
    on("dblclick", (event) => this.open(this.at(event)));
    on("wheel", (event) => this.wheel(event), { passive: false });
    on("keydown", (event) => this.press(event));
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(this.element);
    this.stop = () => { gone.abort(); observer.disconnect(); };
  }

  destroy() {
    cancelAnimationFrame(this.frame);
    this.gone = true;
    this.stop();
    this.element.replaceChildren();
  }

  setTheme(theme) {
    this.theme = theme;
    this.invalidate();
  }

  resize() {
    const box = this.element.getBoundingClientRect();
    this.ratio = Math.min(3, window.devicePixelRatio || 1);
    [this.width, this.height] = [Math.max(100, box.width), Math.max(60, box.height)];
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.raster.resize(this.width, this.height, this.ratio);
    this.view.place(LEFT, this.width - 2 * LEFT);
    this.invalidate();
  }

  invalidate() {
    if (!this.frame && !this.gone) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  draw() {
    const { context, raster, view, tile } = this;
    const theme = THEMES[this.theme];
    tile.pixels = pixelsOf(tile, this.codes, false, this.theme);
    raster.clear(groundPixel(theme.ground));
    const top = 4 - this.scroll;
    raster.paint(tile, view, top, this.placed.depth, ROW, 0, LEFT, this.width - LEFT);
    raster.spread(top, this.placed.depth, ROW, 0);
    context.setTransform(1, 0, 0, 1, 0, 0);
    raster.show();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.label(theme);
    for (const [node, colour] of [[this.hover, theme.text], [this.picked, theme.accent]]) {
      if (node < 0) continue;
      const { x0, x1, y } = this.box(node);
      context.strokeStyle = colour;
      context.lineWidth = colour === theme.accent ? 2 : 1;
      context.strokeRect(Math.round(x0) + 0.5, y + 0.5, Math.max(2, x1 - x0 - 1), ROW - 2);
    }
  }

  label(theme) {
    const { context, tree } = this;
    context.font = LABEL_FONT;
    context.textBaseline = "middle";
    context.fillStyle = theme.onSlice;
    for (let node = 0; node < tree.names.length; node++) {
      const { x0, x1, y } = this.box(node);
      const letters = Math.floor((x1 - x0 - 8) / LETTER_PX);
      if (letters >= 4 && y > -ROW && y < this.height) context.fillText(cut(tree.names[node], letters), x0 + 4, y + ROW / 2);
    }
  }

  box(node) {
    const { view, placed, tree } = this;
    const x0 = Math.max(LEFT, view.x(placed.start[node]));
    return { x0, x1: Math.min(this.width - LEFT, view.x(placed.start[node] + tree.total[node])), y: 4 - this.scroll + placed.row[node] * ROW };
  }

  at(event) {
    const box = this.element.getBoundingClientRect();
    const [x, row] = [event.clientX - box.left, Math.floor((event.clientY - box.top - 4 + this.scroll) / ROW)];
    const time = this.view.at(x);
    const { start, row: rows } = this.placed;
    return this.tree.total.findIndex((total, node) => rows[node] === row && start[node] <= time && time < start[node] + total);
  }

  point(event) {
    this.hover = event ? this.at(event) : -1;
    this.tip.hidden = this.hover < 0;
    if (this.hover >= 0) {
      const title = document.createElement("b");
      title.textContent = this.tree.names[this.hover];
      const more = document.createElement("span");
      more.textContent = this.about(this.hover);
      this.tip.replaceChildren(title, more);
      const box = this.element.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      this.tip.style.transform = `translate(${Math.max(4, Math.min(x + 14, this.width - 340))}px, ${Math.min(y + 16, this.height - 60)}px)`;
    }
    this.invalidate();
  }

  about(node) {
    const { total, self } = this.tree;
    const share = ((100 * total[node]) / Math.max(1, this.placed.whole)).toFixed(1);
    return `${formatDuration(total[node])} · ${share} % · itself ${formatDuration(self[node])}`;
  }

  pick(node) {
    this.picked = node;
    if (node >= 0) this.spoken.textContent = `${this.tree.names[node]}, ${this.about(node)}`;
    this.invalidate();
    this.chosen(node);
  }

  /** Gives a node the whole width. */
  open(node) {
    if (node < 0) return this.everything();
    const start = this.placed.start[node];
    this.view.set(start, start + this.tree.total[node]);
    return this.pick(node);
  }

  everything() {
    this.view.set(0, this.view.span);
    this.invalidate();
  }

  show(node) {
    const { start, row } = this.placed;
    this.view.reveal(start[node], start[node] + this.tree.total[node]);
    const y = row[node] * ROW;
    if (y < this.scroll || y > this.scroll + this.height - 2 * ROW) this.scrollTo(y - this.height / 2);
    this.pick(node);
  }

  scrollTo(y) {
    this.scroll = Math.max(0, Math.min(y, this.placed.depth * ROW + 8 - this.height));
    this.invalidate();
  }

  wheel(event) {
    event.preventDefault();
    const x = event.clientX - this.element.getBoundingClientRect().left;
    if (event.shiftKey) this.scrollTo(this.scroll + (event.deltaY || event.deltaX));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.view.pan(event.deltaX);
    else this.view.zoom(Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.0022)), x);
    this.invalidate();
  }

  press(event) {
    const key = event.key;
    const letter = key.toLowerCase();
    const middle = this.width / 2;
    if (key.startsWith("Arrow")) this.show(walkTree(key, this.picked, this.tree.parent, this.placed));
    else if (key === "Enter") this.open(this.picked);
    else if (key === "Escape" || letter === "f") this.everything();
    else if (letter === "w" || letter === "s") this.view.zoom(letter === "w" ? 0.8 : 1.25, middle);
    else if (letter === "a" || letter === "d") this.view.pan(letter === "a" ? -80 : 80);
    else return;
    event.preventDefault();
    this.invalidate();
  }
}
