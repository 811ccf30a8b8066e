// Draws what surrounds the rows: the overview strip, the ruler, the names of tracks, and what lies over the slices.

import { rowHeight } from "./raster.js";
import { levelFor, tileSpan } from "./tiles.js";
import { THEMES, colourOf, css } from "./theme.js";
import { formatDuration } from "./time.js";

export const RAIL = 216;
export const OVERVIEW = 40;
export const RULER = 26;
const UI_FONT = '11px Inter, system-ui, sans-serif';

/** The devices' bands over the whole recording, with the view marked; drag in it to move. */
export function drawOverview(state) {
  const { context, view, meta } = state;
  const theme = THEMES[state.theme];
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, state.width, OVERVIEW);
  const bands = meta.overview;
  const level = levelFor(view.span / view.width);
  state.tiles.wholeLevel = level;
  const height = Math.max(2, Math.floor((OVERVIEW - 8) / Math.max(1, bands.length)));
  bands.forEach((track, place) => {
    const y = 4 + place * height;
    for (let index = 0; index * tileSpan(level) < view.span; index++) {
      const tile = state.overviewTiles.get(level, index, track);
      if (!tile) continue;
      for (let n = 0; n < tile.n; n++) {
        const x0 = view.left + ((tile.base + tile.start[n]) / view.span) * view.width;
        const x1 = x0 + (tile.dur[n] / view.span) * view.width;
        context.fillStyle = css(colourOf(meta.bands[tile.category[n]], true, state.theme));
        context.fillRect(Math.max(view.left, x0), y, Math.max(0.75, x1 - x0), height - 1);
      }
    }
  });
  state.overviewTiles.want(level, 0, view.span, bands, view.span);
  const x0 = view.left + (view.start / view.span) * view.width;
  const x1 = view.left + (view.end / view.span) * view.width;
  context.fillStyle = theme.shade;
  context.fillRect(view.left, 0, x0 - view.left, OVERVIEW);
  context.fillRect(x1, 0, view.left + view.width - x1, OVERVIEW);
  context.strokeStyle = theme.accent;
  context.lineWidth = 1;
  context.strokeRect(Math.round(x0) + 0.5, 0.5, Math.max(2, Math.round(x1 - x0) - 1), OVERVIEW - 1);
  write(context, theme.text, "600 11px Inter, system-ui, sans-serif", "Overview", 10, OVERVIEW / 2);
}

export function drawRuler(state) {
  const { context, view } = state;
  const theme = THEMES[state.theme];
  context.fillStyle = theme.panel;
  context.fillRect(0, OVERVIEW, state.width, RULER);
  const middle = OVERVIEW + RULER / 2;
  const base = state.tickBase ? `from ${formatDuration(state.tickBase)} · ` : "";
  write(context, theme.dim, UI_FONT, `${base}view ${formatDuration(view.length)}`, 10, middle);
  for (const { time, label } of state.ticks) {
    const x = view.x(time);
    if (x < view.left - 1) continue;
    context.fillStyle = theme.line;
    context.fillRect(Math.round(x), OVERVIEW + RULER - 6, 1, 6);
    write(context, theme.dim, UI_FONT, label, x + 4, middle);
  }
  context.fillStyle = theme.line;
  context.fillRect(0, OVERVIEW + RULER - 1, state.width, 1);
}

/** The names of the tracks, to the left of them. */
export function drawRail(state) {
  const { context } = state;
  const theme = THEMES[state.theme];
  context.fillStyle = theme.panel;
  context.fillRect(0, state.top, RAIL, state.height - state.top);
  for (const row of [...state.visible].sort((a, b) => Number(a.pinned) - Number(b.pinned))) {
    const { node } = row;
    const group = node.kind === "group";
    if (group) {
      context.fillStyle = theme.group;
      context.fillRect(0, row.screen, state.width, row.height);
    } else if (row.pinned) {
      context.fillStyle = theme.panel;
      context.fillRect(0, row.screen, RAIL, row.height);
    }
    const y = row.screen + Math.min(row.height, 22) / 2;
    const indent = 8 + row.depth * 10;
    const sign = node.children?.length ? (state.rows.collapsed.has(node.key) ? "▸ " : "▾ ") : row.pinned ? "⌖ " : "";
    const font = group ? "600 11.5px Inter, system-ui, sans-serif" : UI_FONT;
    const room = RAIL - indent - 8 - (node.detail && !group ? 54 : 0);
    write(context, theme.text, font, fit(context, font, sign + node.label, room), indent, y);
    if (node.detail) {
      context.textAlign = "right";
      write(context, theme.dim, UI_FONT, fit(context, UI_FONT, node.detail, group ? 400 : 90), group ? state.width - 12 : RAIL - 8, y);
      context.textAlign = "left";
    }
    context.fillStyle = theme.line;
    context.fillRect(0, row.screen + row.height - 1, state.width, 1);
  }
  if (state.rows.pinnedHeight) {
    context.fillStyle = theme.accent;
    context.fillRect(0, state.top + state.rows.pinnedHeight - 1, state.width, 1);
  }
  context.fillStyle = theme.line;
  context.fillRect(RAIL - 1, state.top, 1, state.height - state.top);
}

/** The screen positions of an end of an arrow or of a picked slice: one for each visible row that shows its track. */
export function placesOf(state, { track, row: line, time }) {
  return state.visible.filter((one) => one.node.track === track && !covered(state, one)).map((row) => {
    const height = rowHeight(row.node);
    const shown = Math.max(1, Math.floor((row.height - 4) / height));
    return { x: state.view.x(time), y: row.screen + 2 + (Math.min(line, shown - 1) + 0.5) * height };
  });
}

/** How far to scroll so that a line of a row is in sight: 0 where it is, else so that some of what is above it is, too. */
export function wayTo(state, row, line) {
  if (row.pinned) return 0;
  const height = rowHeight(row.node);
  const shown = Math.max(1, Math.floor((row.height - 4) / height));
  const top = state.top + state.rows.pinnedHeight;
  const first = state.top + row.y - state.scroll;
  const y = first + 2 + Math.min(line, shown - 1) * height;
  if (first >= top && y + height <= state.height) return 0;
  const room = state.height - top;
  return y + height - first + 40 <= room ? first - top - 40 : y - top - room / 2;
}

/** The same for an end of an arrow: where its rows are scrolled away, the edge that lies towards them. */
export function endsOf(state, end) {
  const places = placesOf(state, end);
  if (places.length) return places;
  const row = state.rows.list.find((one) => one.node.track === end.track && !one.pinned);
  if (!row) return [];
  const [low, high] = [state.top + state.rows.pinnedHeight, state.height];
  return [{ x: state.view.x(end.time), y: Math.max(low, Math.min(high, row.screen + row.height / 2)), away: true }];
}

/** Whether a row lies behind the pinned ones. */
const covered = (state, row) => !row.pinned && row.screen + row.height / 2 < state.top + state.rows.pinnedHeight;

function outline(state, one, colour, width) {
  const { context, view } = state;
  const height = one.height ?? 15;
  context.strokeStyle = colour;
  context.lineWidth = width;
  for (const place of placesOf(state, { ...one, time: one.start })) {
    const left = Math.max(view.left, place.x);
    const right = Math.min(view.left + view.width, view.x(one.end));
    if (right < view.left || left > view.left + view.width) continue;
    context.strokeRect(Math.round(left) - 0.5, place.y - height / 2, Math.max(3, right - left) + 1, height - 1);
  }
}

/** Arrows of the picked slice, outlines of what is picked, hovered and highlighted, the area, and marks. */
export function drawOverlays(state) {
  const { context, view, top } = state;
  const theme = THEMES[state.theme];
  context.save();
  context.beginPath();
  context.rect(view.left, top, view.width, state.height - top);
  context.clip();
  if (state.area) {
    const [x0, x1] = [view.x(state.area.start), view.x(state.area.end)];
    context.fillStyle = theme.area;
    context.fillRect(x0, top, x1 - x0, state.height - top);
    context.fillStyle = theme.accent;
    context.fillRect(x0, top, 1, state.height);
    context.fillRect(x1, top, 1, state.height);
  }
  for (const mark of state.marks) {
    context.fillStyle = theme.accent;
    context.fillRect(Math.round(view.x(mark)), top, 1, state.height - top);
  }
  for (const one of state.highlights) outline(state, one, theme.accent, 1.5);
  drawArrows(state, theme);
  if (state.hover) outline(state, state.hover, theme.text, 1);
  if (state.picked) outline(state, state.picked, theme.accent, 2);
  if (state.pointer && state.pointer.x > view.left) {
    context.fillStyle = theme.dim;
    context.fillRect(Math.round(state.pointer.x), top, 1, state.height - top);
  }
  context.restore();
  if (state.marks.length === 2) measure(state, theme);
}

function drawArrows(state, theme) {
  const { context } = state;
  context.strokeStyle = theme.accent;
  context.fillStyle = theme.accent;
  context.lineWidth = 1.25;
  context.globalAlpha = 0.85;
  // A pinned track is shown twice: arrows lead to both of its rows.
  for (const arrow of state.picked?.arrows ?? []) {
    for (const from of endsOf(state, arrow.from)) {
      for (const to of endsOf(state, arrow.to)) if (!from.away || !to.away) drawArrow(context, from, to);
    }
  }
  context.globalAlpha = 1;
}

function drawArrow(context, from, to) {
  const bend = Math.max(20, Math.abs(to.x - from.x) / 3);
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
  context.stroke();
  context.beginPath();
  context.moveTo(to.x, to.y);
  context.lineTo(to.x - 6, to.y - 3.5);
  context.lineTo(to.x - 6, to.y + 3.5);
  context.fill();
}

function measure(state, theme) {
  const { context, view } = state;
  const [from, to] = [...state.marks].sort((a, b) => a - b);
  const [x0, x1] = [Math.max(view.left, view.x(from)), Math.min(view.left + view.width, view.x(to))];
  if (x1 <= x0) return;
  const y = OVERVIEW + RULER - 9;
  context.fillStyle = theme.accent;
  context.fillRect(x0, y, x1 - x0, 2);
  context.textAlign = "center";
  write(context, theme.accent, "600 11px Inter, system-ui, sans-serif", formatDuration(to - from), (x0 + x1) / 2, y - 6);
  context.textAlign = "left";
}

function write(context, colour, font, text, x, y) {
  context.fillStyle = colour;
  context.font = font;
  context.textBaseline = "middle";
  context.fillText(text, x, y);
}

function fit(context, font, text, room) {
  context.font = font;
  if (context.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return `${text.slice(0, length)}…`;
}
