// A pixel buffer that slices are painted into. Canvas rectangles and software WebGL are an order slower at the tens of
// thousands of slices that a view of a large trace holds. Each slice paints one line of pixels; `spread` then copies that
// line down to the height of its row.

import { SLICE_HEIGHT } from "./rows.js";

export class Raster {
  constructor(context) {
    this.context = context;
    this.width = 0;
    this.height = 0;
  }

  resize(width, height, ratio) {
    this.ratio = ratio;
    this.width = Math.max(1, Math.round(width * ratio));
    this.height = Math.max(1, Math.round(height * ratio));
    this.image = this.context.createImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  clear(pixel) {
    this.pixels.fill(pixel);
  }

  /** A vertical line, in css pixels. */
  rule(x, top, pixel) {
    const column = Math.round(x * this.ratio);
    if (column < 0 || column >= this.width) return;
    for (let at = Math.max(0, Math.round(top * this.ratio)) * this.width + column; at < this.pixels.length; at += this.width) {
      this.pixels[at] = pixel;
    }
  }

  /** First and last device line of a slice row that starts at css pixel y, kept below `top`; first > last: not visible. */
  lines(y, height, top) {
    const first = Math.max(Math.round(y * this.ratio), Math.round(top * this.ratio));
    const last = Math.min(Math.round((y + height - 1) * this.ratio), this.height);
    return [first, last];
  }

  /**
   * Paints what a tile has between css pixels `from` and `to`.
   *
   * @param {object} tile A decoded tile with its `pixels`.
   * @param {object} view The view.
   * @param {number} y Top of slice row 0, css px.
   * @param {number} rows How many slice rows there is room for; deeper ones are left out.
   * @param {number} height Of a slice row, css px.
   */
  paint(tile, view, y, rows, height, top, from, to) {
    const { pixels: out, width, ratio } = this;
    const low = Math.max(0, Math.round(from * ratio));
    const high = Math.min(width, Math.round(to * ratio));
    if (high <= low) return;
    const scale = ratio / view.nsPerPixel;
    const origin = view.x(tile.base) * ratio;
    const lineOf = new Int32Array(rows);
    for (let row = 0; row < rows; row++) {
      const [first, last] = this.lines(y + row * height, height, top);
      lineOf[row] = last > first ? first * width : -1;
    }
    const { n, start, dur, row, pixels } = tile;
    for (let at = 0; at < n; at++) {
      if (row[at] >= rows) continue;
      const line = lineOf[row[at]];
      if (line < 0) continue;
      let x0 = origin + start[at] * scale;
      let x1 = x0 + dur[at] * scale;
      if (x1 < low || x0 >= high) continue;
      x0 = Math.max(low, Math.floor(x0));
      // A gap of one pixel between wide neighbours; nothing is thinner than a pixel.
      x1 = Math.min(high, Math.floor(x1 - x0 > 3 ? x1 - 1 : x1));
      if (x1 <= x0) x1 = Math.min(high, x0 + 1);
      out.fill(pixels[at], line + x0, line + x1);
    }
  }

  /** Copies the painted first line of each slice row down to the row's height. */
  spread(y, rows, height, top) {
    for (let row = 0; row < rows; row++) {
      const [first, last] = this.lines(y + row * height, height, top);
      if (last <= first) continue;
      const source = first * this.width;
      for (let line = first + 1; line < last; line++) {
        this.pixels.copyWithin(line * this.width, source, source + this.width);
      }
    }
  }

  show() {
    this.context.putImageData(this.image, 0, 0);
  }
}

export const rowHeight = (node) => (node.kind === "band" ? 20 : SLICE_HEIGHT);
