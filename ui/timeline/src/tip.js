// What the pointer rests on, in words beside it.

import { formatQuantity } from "./quantity.js";
import { formatDuration } from "./time.js";

export class Tip {
  /** @param {HTMLElement} parent Where it lies over. */
  constructor(parent) {
    this.box = parent.appendChild(document.createElement("div"));
    this.box.className = "timeline-tip";
    this.box.hidden = true;
  }

  /** Shows a slice, block or piece of a band that was found under the pointer. */
  slice(state, { tile, n, row }, at) {
    const band = row.node.kind === "band";
    const name = band ? state.meta.bandLabels[tile.category[n]] : state.names.get(tile.name[n]);
    const kind = band ? row.node.label : state.meta.categories[tile.category[n]];
    const cover = tile.count[n] > 1 ? ` · ${Math.round(100 * tile.cover[n])} % covered` : "";
    const title = tile.count[n] > 1 ? `${tile.count[n].toLocaleString()} slices, the longest ${name}` : name;
    this.show(state, title, `${formatDuration(tile.dur[n])} · ${kind}${cover}`, at);
  }

  /** Shows what a counter is at the pointer; hides where there is no counter, or no value yet. */
  counter(state, found, at) {
    const values = found && state.counters.at(found.row.node, state.view, found.time);
    this.box.hidden = !values;
    if (!values) return;
    const words = values.map((value) => formatQuantity(value, found.row.node.unit));
    this.show(state, found.row.node.label, [...new Set(words)].join(" to "), at);
  }

  show(state, title, more, at) {
    const head = document.createElement("b");
    head.textContent = title;
    const rest = document.createElement("span");
    rest.textContent = more;
    this.box.replaceChildren(head, rest);
    this.box.hidden = false;
    const left = Math.min(at.x + 14, state.width - 340);
    this.box.style.transform = `translate(${Math.max(4, left)}px, ${Math.min(at.y + 16, state.height - 60)}px)`;
  }
}
