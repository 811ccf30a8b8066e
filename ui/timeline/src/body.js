// Draws the rows of the timeline: slices and bands into the pixel buffer, then counters, steps, labels and hatching on top.

import { rowHeight } from "./raster.js";
import { levelFor, tileSpan } from "./tiles.js";
import { THEMES, colourOf, groundPixel, pixelsOf, textOn } from "./theme.js";

const LABEL_FONT = '10.5px "JetBrains Mono", ui-monospace, monospace';
const LABEL_LEAST_PX = 30;
const LETTER_PX = 6.35;
const MOST_LABELS = 1200;

const hasTiles = (node) => node.track !== undefined && node.kind !== "counter" && node.kind !== "group";

/** How many slice rows a row has room for. */
export function rowsShown(row) {
  return Math.max(1, Math.floor((row.height - 4) / rowHeight(row.node)));
}

/** Asks for the tiles that the visible rows lack. */
export function wantTiles(state) {
  const tracks = [...new Set(state.visible.filter((row) => hasTiles(row.node)).map((row) => row.node.track))];
  if (tracks.length) state.tiles.want(levelFor(state.view.nsPerPixel), state.view.start, state.view.end, tracks, state.view.span);
}

/** The tiles of a row that cover the view, with the stretch of css pixels each is good for. */
export function* tilesOf(state, track) {
  const { view, tiles } = state;
  const level = levelFor(view.nsPerPixel);
  const span = tileSpan(level);
  for (let index = Math.max(0, Math.floor(view.start / span)); index * span < view.end; index++) {
    for (const { tile, from, to, exact } of tiles.best(level, index, track)) {
      const left = Math.max(view.left, view.x(from));
      const right = Math.min(view.left + view.width, view.x(to));
      if (right > left) yield { tile, left, right, exact };
    }
  }
}

function pixelsFor(state, tile, band) {
  if (tile.theme !== state.theme || !tile.pixels) {
    tile.pixels = pixelsOf(tile, band ? state.meta.bands : state.meta.categories, band, state.theme);
    tile.theme = state.theme;
  }
}

/** Paints all visible slice rows; returns what `drawLabels` needs. Sets `state.complete` where every tile was exact. */
export function paintSlices(state) {
  const { raster, view } = state;
  raster.clear(groundPixel(THEMES[state.theme].ground));
  for (const { time } of state.ticks) raster.rule(view.x(time), state.top, groundPixel(THEMES[state.theme].rule));
  const painted = [];
  state.complete = true;
  const recorded = Math.min(view.left + view.width, view.x(view.span)) - Math.max(view.left, view.x(0));
  for (const row of state.visible) {
    if (!hasTiles(row.node)) continue;
    const top = row.pinned ? state.top : state.top + state.rows.pinnedHeight;
    const height = rowHeight(row.node);
    const rows = rowsShown(row);
    let covered = 0;
    for (const { tile, left, right, exact } of tilesOf(state, row.node.track)) {
      pixelsFor(state, tile, row.node.kind === "band");
      raster.paint(tile, view, row.screen + 2, rows, height, top, left, right);
      painted.push({ tile, row, left, right, rows, height, top });
      if (exact) covered += right - left;
    }
    if (covered < recorded - 1) state.complete = false;
    raster.spread(row.screen + 2, rows, height, top);
  }
  raster.show();
  return painted;
}

/** Writes the names of slices that are wide enough, once for a slice that spans several tiles. */
export function drawLabels(state, painted) {
  const { context, view } = state;
  context.font = LABEL_FONT;
  context.textBaseline = "middle";
  let written = 0;
  const seen = new Set();
  for (const { tile, row, left, right, rows, height, top } of painted) {
    const least = LABEL_LEAST_PX * view.nsPerPixel;
    for (let n = 0; n < tile.n && written < MOST_LABELS; n++) {
      if (tile.dur[n] < least || tile.row[n] >= rows || tile.count[n] > 1) continue;
      const key = `${row.y}/${tile.ref[n]}`;
      const start = tile.base + tile.start[n];
      const x0 = Math.max(view.left, view.x(start));
      const x1 = Math.min(view.left + view.width, view.x(start + tile.dur[n]));
      if (x1 - x0 < LABEL_LEAST_PX || x1 < left || x0 > right || seen.has(key)) continue;
      const y = row.screen + 2 + tile.row[n] * height;
      if (y < top - 2) continue;
      const name = row.node.kind === "band" ? state.meta.bandLabels[tile.category[n]] : state.names.get(tile.name[n]);
      const room = Math.floor((x1 - x0 - 8) / LETTER_PX);
      if (room < 3 || !name) continue;
      if (row.node.kind === "band") context.fillStyle = textOn(colourOf(state.meta.bands[tile.category[n]], true, state.theme));
      else context.fillStyle = THEMES[state.theme].onSlice;
      context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, x0 + 4, y + (height - 1) / 2 + 0.5);
      seen.add(key);
      written += 1;
    }
  }
}

/** Draws the boxes of a row of steps: number, and a tint where it is not steady. */
export function drawSteps(state, row) {
  const { context, view, meta } = state;
  const theme = THEMES[state.theme];
  context.font = '11px Inter, system-ui, sans-serif';
  context.textBaseline = "middle";
  for (const step of meta.steps[row.node.steps] ?? []) {
    const x0 = Math.max(view.left, view.x(step.start));
    const x1 = Math.min(view.left + view.width, view.x(step.end));
    if (x1 <= x0) continue;
    context.fillStyle = step.phase === "preparation" ? theme.hatch : theme.group;
    context.fillRect(x0, row.screen + 3, x1 - x0, row.height - 7);
    context.strokeStyle = theme.dim;
    context.strokeRect(Math.round(x0) + 0.5, row.screen + 3.5, Math.max(1, Math.round(x1 - x0) - 1), row.height - 8);
    context.fillStyle = theme.text;
    const label = `step ${step.number}`;
    if (x1 - x0 > 12 + 6.5 * label.length) context.fillText(label, x0 + 5, row.screen + row.height / 2);
    else if (x1 - x0 > 26) context.fillText(String(step.number), x0 + 4, row.screen + row.height / 2);
  }
}

export function drawCounter(state, row) {
  const theme = THEMES[state.theme];
  state.counters.draw(state.context, row.node, state.view, row.screen + 2, row.height - 6, theme.accent, state.theme);
}

/** Hatches what is missing or paused, over the rows that it concerns. */
export function drawLosses(state) {
  const { context, view } = state;
  context.strokeStyle = THEMES[state.theme].hatch;
  context.lineWidth = 1;
  for (const loss of state.meta.losses) {
    const x0 = Math.max(view.left, view.x(loss.start));
    const x1 = Math.min(view.left + view.width, Math.max(view.x(loss.end), view.x(loss.start) + 2));
    if (x1 <= x0) continue;
    for (const row of state.visible) {
      if (row.node.kind === "group" || (loss.track !== null && loss.track !== row.node.track)) continue;
      context.save();
      context.beginPath();
      context.rect(x0, row.screen, x1 - x0, row.height - 3);
      context.clip();
      context.beginPath();
      for (let x = x0 - row.height; x < x1; x += 7) {
        context.moveTo(x, row.screen + row.height);
        context.lineTo(x + row.height, row.screen);
      }
      context.stroke();
      context.restore();
    }
  }
}

/** The row of a counter under a pixel and the time there: {row, time}; null where there is none. */
export function counterAt(state, x, y) {
  if (x < state.view.left || y < state.top) return null;
  const row = rowAt(state, y);
  return row?.node.kind === "counter" ? { row, time: Math.max(0, Math.round(state.view.at(x))) } : null;
}

const rowAt = (state, y) =>
  state.visible.find((one) => y >= one.screen && y < one.screen + one.height && (one.pinned || y >= state.top + state.rows.pinnedHeight));

/** The slice under a pixel: {row, tile, n}, the narrowest where several touch it; null where there is none. */
export function hit(state, x, y) {
  if (x < state.view.left || y < state.top) return null;
  const row = rowAt(state, y);
  if (!row || !hasTiles(row.node)) return null;
  const line = Math.floor((y - row.screen - 2) / rowHeight(row.node));
  const time = state.view.at(x);
  const slop = 2 * state.view.nsPerPixel;
  let found = null;
  for (const { tile, left, right } of tilesOf(state, row.node.track)) {
    if (x < left - 2 || x > right + 2) continue;
    for (let n = 0; n < tile.n; n++) {
      if (tile.row[n] !== line) continue;
      const from = tile.base + tile.start[n];
      if (time < from - slop || time > from + tile.dur[n] + slop) continue;
      const inside = time >= from && time <= from + tile.dur[n];
      const better = !found || (inside && !found.inside) || (inside === found.inside && tile.dur[n] < found.tile.dur[found.n]);
      if (better) found = { row, tile, n, inside };
    }
  }
  return found;
}
