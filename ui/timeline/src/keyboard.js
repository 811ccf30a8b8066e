// Keys. Held movement keys accelerate; the rest act once.

const MOVES = { w: "in", s: "out", a: "left", d: "right", arrowleft: "left", arrowright: "right", arrowup: "up", arrowdown: "down" };

const HELP = [
  ["W / S", "zoom in, zoom out at the pointer"],
  ["A / D, ← / →", "earlier, later (hold to go faster)"],
  ["↑ / ↓", "scroll the tracks"],
  ["wheel, pinch", "zoom at the pointer; over the names: scroll"],
  ["drag", "select an area"],
  ["shift + drag", "move"],
  ["F", "fit the picked slice or area; again: everything"],
  ["M", "mark the picked slice or area, and measure from mark to mark"],
  ["/", "search"],
  ["[ / ]", "back, forward along the arrows of the picked slice"],
  [", / .", "slice before, after on the same row"],
  ["N / P", "next, previous step"],
  ["shift + ↑ / ↓", "move the track under the pointer up, down"],
  ["U", "show hidden tracks again"],
  ["Esc", "clear"],
  ["?", "this help"],
  ["click a name", "open, close"],
  ["shift + click a name", "pin"],
  ["alt + click a name", "hide"],
];

/** A hidden box that says what each key does. */
export function helpBox() {
  const box = document.createElement("div");
  box.className = "timeline-help";
  box.hidden = true;
  const list = box.appendChild(document.createElement("dl"));
  for (const [keys, meaning] of HELP) {
    list.appendChild(document.createElement("dt")).textContent = keys;
    list.appendChild(document.createElement("dd")).textContent = meaning;
  }
  return box;
}

export class Keyboard {
  /** @param {Record<string, () => void>} once Actions by key, lower case. */
  constructor(once, wake) {
    this.once = once;
    this.wake = wake;
    this.held = new Map(); // direction -> when it went down
  }

  down(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    const shifted = event.shiftKey && this.once[`shift+${key}`];
    if (shifted) {
      event.preventDefault();
      shifted();
    } else if (MOVES[key]) {
      event.preventDefault();
      if (!this.held.has(MOVES[key])) this.held.set(MOVES[key], performance.now());
      this.wake();
    } else if (this.once[key]) {
      event.preventDefault();
      this.once[key]();
    }
  }

  up(event) {
    this.held.delete(MOVES[event.key.toLowerCase()]);
  }

  release() {
    this.held.clear();
  }

  /** Applies what is held for `elapsed` ms. Returns whether anything is. */
  step(elapsed, now, { zoom, pan, scroll }) {
    for (const [direction, since] of this.held) {
      const speed = 1 + Math.min(4, (now - since) / 400);
      const amount = (elapsed / 1000) * speed;
      if (direction === "in") zoom(Math.exp(-1.6 * amount));
      else if (direction === "out") zoom(Math.exp(1.6 * amount));
      else if (direction === "left") pan(-420 * amount);
      else if (direction === "right") pan(420 * amount);
      else scroll((direction === "up" ? -500 : 500) * amount);
    }
    return this.held.size > 0;
  }
}
