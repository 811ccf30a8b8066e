// The timeline: holds its state, draws a frame when something changed, and turns gestures into views, picks and areas.

import { keysIn, moved, onTracks, told } from "./area.js";
import { counterAt, drawCounter, drawLabels, drawLosses, drawSteps, hit, paintSlices, wantTiles } from "./body.js";
import { CounterStore } from "./counters.js";
import { OVERVIEW, RAIL, RULER, drawOverlays, drawOverview, drawRail, drawRuler, wayTo } from "./frame.js";
import { Keyboard, helpBox } from "./keyboard.js";
import { NameStore } from "./names.js";
import { Pointer } from "./pointer.js";
import { Raster, rowHeight } from "./raster.js";
import { Rows } from "./rows.js";
import { TileStore } from "./tiles.js";
import { Tip } from "./tip.js";
import { formatDuration, niceStep, tickBase, ticks } from "./time.js";
import { View } from "./view.js";

/** A tree of tracks upside down, so that what is first stands last. */
function mirrored(tree) {
  return [...tree].reverse().map((node) => (node.children ? { ...node, children: mirrored(node.children) } : node));
}

export class Timeline {
  /**
   * @param {HTMLElement} element Where to draw; fills it.
   * @param {object} source Fetches: meta(), tiles(level, index, tracks, signal), names(block), counter(track, level, index),
   *   slice(ref), near(ref, way): see api.js.
   * @param {object} on Callbacks: move(start, end) while the user moves, view(start, end) where that ends, pick(slice),
   *   area(area), search(), ready().
   * @param {object} options mirror: the last track first, from the bottom; slack: may be moved past its ends;
   *   arrangement: what another one's arrangement() was.
   */
  constructor(element, source, on, theme, options = {}) {
    this.element = element;
    this.options = options;
    this.source = source;
    this.on = on;
    this.alive = true;
    element.replaceChildren();
    this.canvas = element.appendChild(document.createElement("canvas"));
    this.tip = new Tip(element);
    this.help = element.appendChild(helpBox());
    this.spoken = element.appendChild(document.createElement("div"));
    this.spoken.className = "timeline-spoken";
    this.spoken.setAttribute("aria-live", "polite");
    element.tabIndex = 0;
    element.setAttribute("role", "application");
    element.setAttribute("aria-label", "Timeline. Press question mark for the keys.");
    const redraw = () => this.invalidate();
    const context = this.canvas.getContext("2d", { alpha: false });
    this.state = {
      context, raster: new Raster(context), view: new View(1), theme, rows: new Rows([]), visible: [], ticks: [], marks: [],
      highlights: [], hover: null, picked: null, area: null, pointer: null, scroll: 0, top: OVERVIEW + RULER, width: 1, height: 1,
      tiles: new TileStore((...args) => source.tiles(...args), redraw),
      overviewTiles: new TileStore((...args) => source.tiles(...args), redraw),
      names: new NameStore((block) => source.names(block), redraw),
      counters: new CounterStore((...args) => source.counter(...args), redraw),
    };
    this.statistics = { frames: [], drawn: 0 };
    this.listen();
    this.loaded = this.load();
  }

  async load() {
    const meta = await this.source.meta();
    if (!this.alive) return;
    const { state } = this;
    state.meta = meta;
    state.view = new View(meta.span, this.options.slack ? meta.span : 0);
    state.rows = new Rows(this.options.mirror ? mirrored(meta.tree) : meta.tree);
    if (this.options.arrangement) state.rows.arrange(this.options.arrangement);
    this.resize();
    if (this.options.mirror) this.scrollBy(Infinity);
    else if (this.options.arrangement) this.scrollBy(this.options.arrangement.scroll);
    if (this.wanted) this.setView(...this.wanted);
    if (this.options.arrangement?.area) this.takeArea(this.options.arrangement);
    // The keys work at once, unless they are meant for something else.
    if (document.activeElement === document.body && !this.options.slack) this.element.focus({ preventScroll: true });
    this.invalidate();
  }

  listen() {
    const gone = new AbortController();
    const options = { signal: gone.signal };
    const pointer = new Pointer(this);
    this.keyboard = new Keyboard(this.keys(), () => this.invalidate());
    const { element } = this;
    element.addEventListener("pointerdown", (event) => { element.focus({ preventScroll: true }); pointer.down(event); }, options);
    element.addEventListener("pointermove", (event) => pointer.move(event), options);
    element.addEventListener("pointerup", (event) => pointer.up(event), options);
    element.addEventListener("pointerleave", () => pointer.leave(), options);
    element.addEventListener("wheel", (event) => pointer.wheel(event), { ...options, passive: false });
    element.addEventListener("keydown", (event) => this.keyboard.down(event), options);
    element.addEventListener("keyup", (event) => this.keyboard.up(event), options);
    element.addEventListener("blur", () => this.keyboard.release(), options);
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(element);
    this.stop = () => { gone.abort(); observer.disconnect(); };
  }

  destroy() {
    this.alive = false;
    cancelAnimationFrame(this.frame);
    this.stop();
    this.state.tiles.clear();
    this.state.overviewTiles.clear();
    this.element.replaceChildren();
  }

  // ---- drawing

  resize() {
    const { state } = this;
    const box = this.element.getBoundingClientRect();
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    state.width = Math.max(RAIL + 50, box.width);
    state.height = Math.max(100, box.height);
    this.canvas.width = Math.round(state.width * ratio);
    this.canvas.height = Math.round(state.height * ratio);
    this.canvas.style.width = `${state.width}px`;
    this.canvas.style.height = `${state.height}px`;
    state.ratio = ratio;
    state.raster.resize(state.width, state.height, ratio);
    state.view.place(RAIL, state.width - RAIL);
    this.scrollBy(0);
  }

  invalidate() {
    if (!this.frame && this.alive) this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    this.frame = 0;
    if (!this.alive || !this.state.meta) return;
    const elapsed = Math.min(50, now - (this.before ?? now - 16));
    this.before = now;
    const moving = this.keyboard.step(elapsed, now, {
      zoom: (factor) => this.zoomAt(factor, this.state.pointer?.x ?? RAIL + this.state.view.width / 2),
      pan: (pixels) => this.panBy(pixels),
      scroll: (pixels) => this.scrollBy(pixels),
    });
    const began = performance.now();
    this.draw();
    this.statistics.drawn = performance.now() - began;
    if (moving) this.invalidate();
    else this.before = undefined;
    if (!this.announced && this.state.complete) {
      this.announced = true;
      this.on.ready?.();
    }
  }

  draw() {
    const { state } = this;
    const { context, view } = state;
    const step = niceStep(view.nsPerPixel * 110);
    state.tickBase = tickBase(view.start, step);
    state.ticks = ticks(view.start, view.end, step, state.tickBase);
    this.placeRows();
    wantTiles(state);
    context.setTransform(1, 0, 0, 1, 0, 0);
    const painted = paintSlices(state);
    context.setTransform(state.ratio, 0, 0, state.ratio, 0, 0);
    context.save();
    context.beginPath();
    context.rect(view.left, state.top, view.width, state.height - state.top);
    context.clip();
    for (const row of state.visible) {
      if (row.node.kind === "counter") drawCounter(state, row);
      else if (row.node.kind === "steps") drawSteps(state, row);
    }
    drawLabels(state, painted);
    drawLosses(state);
    context.restore();
    drawRail(state);
    drawOverlays(state);
    drawOverview(state);
    drawRuler(state);
  }

  /** Finds the rows on screen: pinned ones stay at the top, the others scroll beneath them. */
  placeRows() {
    const { state } = this;
    const pinned = state.top + state.rows.pinnedHeight;
    state.visible = [];
    for (const row of state.rows.list) {
      row.screen = state.top + row.y - (row.pinned ? 0 : state.scroll);
      if (row.screen < state.height && row.screen + row.height > (row.pinned ? state.top : pinned)) state.visible.push(row);
    }
  }

  // ---- moving about

  setView(start, end, silent = false) {
    if (!this.state.meta) {
      this.wanted = [start, end, silent];
      return;
    }
    if (!this.state.view.set(start, end)) return;
    this.invalidate();
    if (!silent) this.settle();
  }

  /** Tells the page where the view came to rest, not every frame on the way. */
  settle() {
    this.on.move?.(this.state.view.start, this.state.view.end);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.alive && this.on.view?.(this.state.view.start, this.state.view.end), 200);
  }

  zoomAt(factor, x) {
    if (this.state.view.zoom(factor, x)) { this.invalidate(); this.settle(); }
  }

  panBy(pixels) {
    if (this.state.view.pan(pixels)) { this.invalidate(); this.settle(); }
  }

  scrollBy(pixels) {
    const { state } = this;
    const most = Math.max(0, state.rows.height - (state.height - state.top));
    state.scroll = Math.max(0, Math.min(most, state.scroll + pixels));
    this.invalidate();
  }

  /** Brings a slice into view, opening the groups above it. */
  reveal({ track, row: line = 0, start, end }, fit = false) {
    const row = this.state.rows.open(track);
    if (!row) return;
    this.scrollBy(wayTo(this.state, row, line));
    const { state } = this;
    if (fit) this.fit(start, end);
    else if (state.view.reveal(start, end)) this.settle();
    this.invalidate();
  }

  fit(start, end) {
    const room = Math.max((end - start) * 0.2, 10);
    this.setView(start - room, end + room);
  }

  fitNext() {
    const { picked, area, view } = this.state;
    const one = picked ?? area;
    const fitted = one && view.start <= one.start && view.end >= one.end && one.end - one.start > view.length * 0.6;
    if (one && !fitted) this.fit(one.start, one.end);
    else this.setView(0, view.span);
  }

  // ---- picking

  hoverAt(at) {
    const { state } = this;
    if (!state.meta) return;
    const found = at && hit(state, at.x, at.y);
    state.hover = found ? this.describe(found) : null;
    if (found) this.tip.slice(state, found, at);
    else this.tip.counter(state, at && counterAt(state, at.x, at.y), at);
    this.invalidate();
  }

  describe({ row, tile, n }) {
    return {
      ref: tile.ref[n], track: row.node.track, row: tile.row[n], start: tile.base + tile.start[n],
      end: tile.base + tile.start[n] + tile.dur[n], height: rowHeight(row.node), band: row.node.kind === "band", count: tile.count[n],
    };
  }

  clickAt(at, event) {
    const { state } = this;
    if (!state.meta) return;
    if (at.x < RAIL && at.y > state.top) return this.clickRail(at, event);
    const counter = counterAt(state, at.x, at.y);
    if (counter) return this.pickMoment(counter.row.node.track, counter.time);
    const found = hit(state, at.x, at.y);
    if (!found) return this.pick(null);
    const one = this.describe(found);
    // A block of many slices opens up first; what to pick in it shows then.
    if (one.count > 1) return this.fit(one.start, one.end);
    return this.pick(one.ref, one.band);
  }

  clickRail(at, event) {
    const row = this.state.visible.find((one) => at.y >= one.screen && at.y < one.screen + one.height);
    if (!row) return;
    const { rows } = this.state;
    if (event.altKey) rows.hide(row.node.key);
    else if (event.shiftKey || event.ctrlKey) rows.pin(row.node.key);
    else rows.toggle(row.node.key);
    this.scrollBy(0);
  }

  /** Picks a slice by its ref: shows its arrows, and tells the page. null clears. */
  async pick(ref, band = false, options = {}) {
    const asked = (this.asked = Symbol("pick"));
    if (ref === null) {
      this.state.picked = null;
      this.state.highlights = [];
      this.invalidate();
      if (!options.silent) this.on.pick?.(null);
      return;
    }
    const one = await this.source.slice(ref, band).catch(() => null);
    if (!one || asked !== this.asked || !this.alive) return;
    this.state.picked = { ...one, arrows: one.arrows ?? [], height: rowHeight({ kind: band ? "band" : "thread" }) };
    this.state.highlights = one.highlights ?? [];
    this.spoken.textContent = `${one.name}, ${formatDuration(one.end - one.start)}`;
    if (options.reveal) this.reveal(one, options.fit);
    this.invalidate();
    if (!options.silent) this.on.pick?.(one);
  }

  /** Marks a moment, and picks what a counter was then; of no counter where `track` is null. */
  pickMoment(track, time, options = {}) {
    const { state } = this;
    this.asked = Symbol("moment");
    state.picked = null;
    state.highlights = [];
    state.marks = [time];
    const node = track === null ? undefined : state.rows.open(track)?.node;
    if (node && options.reveal) this.reveal({ track, start: time, end: time });
    this.invalidate();
    if (node) this.on.pick?.({ counter: track, at: time });
  }

  async pickNear(way) {
    const { picked } = this.state;
    if (!picked) return;
    const ref = await this.source.near(picked.ref, way, picked.band).catch(() => null);
    if (ref !== null && ref !== undefined) this.pick(ref, picked.band, { reveal: true });
  }

  /** Follows the picked slice's arrows: forward to what it caused, back to what caused it. */
  follow(forward) {
    const { picked } = this.state;
    if (!picked) return;
    const arrow = picked.arrows.find((one) => one[forward ? "from" : "to"].ref === picked.ref);
    if (arrow) this.pick(arrow[forward ? "to" : "from"].ref, false, { reveal: true });
  }

  setArea(area) {
    this.state.area = area;
    this.invalidate();
  }

  areaDone() {
    const { area, visible, rows } = this.state;
    area.keys = keysIn(area, visible);
    this.on.area?.(told(area, rows));
  }

  /** Marks the area that was marked on a timeline of this recording before. */
  takeArea({ area, origin }) {
    const { meta, rows } = this.state;
    this.showArea(moved(area, origin, meta.origin, rows, meta.span));
  }

  /** Marks an area {start, end, tracks} of an address. */
  markArea(area) {
    this.showArea(onTracks(area, this.state.rows));
  }

  showArea(area) {
    this.setArea(area);
    if (area) this.on.area?.(told(area, this.state.rows));
  }

  mark() {
    const { picked, area, pointer, view } = this.state;
    const one = picked ?? area;
    const marks = one ? [one.start, one.end] : pointer ? [...this.state.marks.slice(-1), view.at(pointer.x)] : [];
    this.state.marks = marks;
    this.invalidate();
  }

  stepBy(by) {
    const { view, meta } = this.state;
    const steps = Object.values(meta.steps)[0] ?? [];
    const middle = (view.start + view.end) / 2;
    const current = steps.findIndex((step) => middle < step.end);
    const next = steps[Math.max(0, Math.min(steps.length - 1, (current < 0 ? steps.length : current) + by))];
    if (next) this.setView(next.start, next.end);
  }

  clear() {
    this.state.area = null;
    this.state.marks = [];
    this.help.hidden = true;
    this.on.area?.(null);
    this.pick(null);
  }

  keys() {
    return {
      f: () => this.fitNext(), m: () => this.mark(), "/": () => this.on.search?.(), "[": () => this.follow(false),
      "]": () => this.follow(true), ",": () => this.pickNear(-1), ".": () => this.pickNear(1), n: () => this.stepBy(1),
      p: () => this.stepBy(-1), escape: () => this.clear(), "?": () => { this.help.hidden = !this.help.hidden; },
      u: () => this.showAll(), "shift+arrowup": () => this.moveTrack(-1), "shift+arrowdown": () => this.moveTrack(1),
    };
  }

  setTheme(theme) {
    this.state.theme = theme;
    this.invalidate();
  }

  setFilter(text) {
    this.state.rows.setFilter(text);
    this.scrollBy(0);
  }

  /** Moves the track under the pointer one place up (-1) or down (1) among those beside it. */
  moveTrack(by) {
    const { state } = this;
    const row = state.pointer && state.visible.find((one) => state.pointer.y >= one.screen && state.pointer.y < one.screen + one.height);
    if (!row) return;
    state.rows.move(row.node.key, by);
    this.scrollBy(0);
  }

  /** How the rows are arranged and scrolled, and the area, for another's option of this name; null if nothing is loaded. */
  arrangement() {
    const { meta, rows, scroll, area } = this.state;
    return meta ? { ...rows.arrangement(), scroll, area: area?.keys ? area : null, origin: meta.origin } : null;
  }

  showAll() {
    this.state.rows.showAll();
    this.scrollBy(0);
  }
}
