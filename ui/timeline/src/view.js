// Which stretch of time is on screen, and how it maps to pixels.

/** No view is shorter than this many nanoseconds. */
export const SHORTEST_NS = 20;

export class View {
  /**
   * @param {number} span Length of the recording, ns.
   * @param {number} slack How far the view may reach past either end of it, ns.
   */
  constructor(span, slack = 0) {
    this.span = Math.max(span, SHORTEST_NS);
    this.low = 0 - slack;
    this.high = this.span + slack;
    this.start = 0;
    this.end = this.span;
    this.left = 0; // first pixel of the plot
    this.width = 1; // pixels of the plot
  }

  place(left, width) {
    this.left = left;
    this.width = Math.max(1, width);
  }

  get length() {
    return this.end - this.start;
  }

  get nsPerPixel() {
    return this.length / this.width;
  }

  /** The pixel of a time; may lie outside the plot. */
  x(time) {
    return this.left + ((time - this.start) / this.length) * this.width;
  }

  /** The time under a pixel. */
  at(x) {
    return this.start + ((x - this.left) / this.width) * this.length;
  }

  /** Shows [start, end), kept within the recording and its slack, and at least SHORTEST_NS long. Returns whether anything changed. */
  set(start, end) {
    const length = Math.min(this.high - this.low, Math.max(SHORTEST_NS, end - start));
    const middle = (start + end) / 2;
    let from = end - start >= SHORTEST_NS ? start : middle - length / 2;
    from = Math.max(this.low, Math.min(this.high - length, from));
    const changed = from !== this.start || from + length !== this.end;
    this.start = from;
    this.end = from + length;
    return changed;
  }

  /** Scales the length by `factor` and keeps the time under pixel `x` where it is. */
  zoom(factor, x) {
    const pivot = this.at(Math.max(this.left, Math.min(this.left + this.width, x)));
    const length = Math.min(this.high - this.low, Math.max(SHORTEST_NS, this.length * factor));
    const share = (pivot - this.start) / this.length;
    return this.set(pivot - share * length, pivot + (1 - share) * length);
  }

  /** Moves by a number of pixels; positive shows later times. */
  pan(pixels) {
    const shift = pixels * this.nsPerPixel;
    return this.set(this.start + shift, this.end + shift);
  }

  /** Moves as little as needed to show [start, end); zooms out only where it does not fit. */
  reveal(start, end) {
    const margin = this.length * 0.1;
    if (start >= this.start && end <= this.end) return false;
    if (end - start > this.length * 0.8) return this.set(start - (end - start) * 0.15, end + (end - start) * 0.15);
    if (start < this.start) return this.set(start - margin, start - margin + this.length);
    return this.set(end + margin - this.length, end + margin);
  }
}
