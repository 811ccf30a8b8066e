// Time for people: durations, ruler ticks. All times are numbers of nanoseconds from the start of the recording.

const UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** A duration with three significant places and its unit: "1.23 ms". */
export function formatDuration(ns) {
  const size = Math.abs(ns);
  for (const [unit, name] of UNITS) {
    if (size >= unit || unit === 1) {
      const value = ns / unit;
      const places = unit === 1 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
      return `${value.toFixed(places)} ${name}`;
    }
  }
  return "0 ns";
}

/** The smallest 1, 2 or 5 times a power of ten that is at least `least` ns (and at least 1). */
export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

/** Ruler ticks in [start, end): their times, and a label relative to `base` in the unit of the step. */
export function ticks(start, end, step, base) {
  const [unit, name] = UNITS.find(([size]) => step >= size) ?? UNITS[UNITS.length - 1];
  const found = [];
  for (let time = Math.ceil(start / step) * step; time < end; time += step) {
    const offset = (time - base) / unit;
    found.push({ time, label: `${offset >= 0 ? "+" : ""}${+offset.toFixed(3)} ${name}` });
  }
  return found;
}

/** The time that tick labels count from: a round one at or before `start`, so that labels stay short while zooming. */
export function tickBase(start, step) {
  const coarse = step * 100;
  return Math.floor(start / coarse) * coarse;
}
