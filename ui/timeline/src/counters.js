// Counters: per bin of a tile the least and the greatest value, drawn as a filled band.

import { BINS, levelFor, tileSpan } from "./tiles.js";

export class CounterStore {
  /** @param {(track: number, level: number, index: number) => Promise<ArrayBuffer>} load Two float64 columns: least, greatest. */
  constructor(load, changed) {
    this.load = load;
    this.changed = changed;
    this.tiles = new Map();
  }

  get(track, level, index) {
    const key = `${track}/${level}/${index}`;
    const tile = this.tiles.get(key);
    if (tile !== undefined) return tile;
    this.tiles.set(key, null);
    if (this.tiles.size > 600) this.tiles.delete(this.tiles.keys().next().value);
    this.load(track, level, index).then(
      (buffer) => {
        this.tiles.set(key, { least: new Float64Array(buffer, 0, BINS), greatest: new Float64Array(buffer, BINS * 8, BINS) });
        this.changed();
      },
      () => this.tiles.delete(key),
    );
    return null;
  }

  /** The least and greatest value in the bin under a time; null where it has not arrived, or there was none yet. */
  at(node, view, time) {
    const level = levelFor(view.nsPerPixel);
    const index = Math.floor(time / tileSpan(level));
    const tile = this.tiles.get(`${node.track}/${level}/${index}`);
    const bin = Math.floor((time - index * tileSpan(level)) / 2 ** level);
    return tile && !Number.isNaN(tile.greatest[bin]) ? [tile.least[bin], tile.greatest[bin]] : null;
  }

  /** Draws one counter into a row of the given css height. */
  draw(context, node, view, y, height, colour, theme) {
    const level = levelFor(view.nsPerPixel);
    const span = tileSpan(level);
    const bottom = y + height;
    const scale = (height - 4) / ((node.most - node.least) || 1);
    const at = (value) => bottom - (value - node.least) * scale;
    context.fillStyle = colour;
    context.globalAlpha = theme === "dark" ? 0.45 : 0.35;
    for (let index = Math.max(0, Math.floor(view.start / span)); index * span < Math.min(view.end, view.span); index++) {
      const tile = this.get(node.track, level, index);
      if (!tile) continue;
      const binWidth = Math.max(1, view.x(2 ** level) - view.x(0));
      for (let bin = 0; bin < BINS; bin++) {
        const greatest = tile.greatest[bin];
        if (Number.isNaN(greatest)) continue;
        const x = view.x(index * span + bin * 2 ** level);
        if (x + binWidth < view.left || x > view.left + view.width) continue;
        const from = Math.max(x, view.left);
        context.fillRect(from, at(greatest), x + binWidth - from + 0.5, bottom - at(greatest));
      }
    }
    context.globalAlpha = 1;
  }
}
