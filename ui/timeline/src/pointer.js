// The pointer: hover, click, drag an area, drag the view, the wheel, and the overview strip.

import { OVERVIEW, RAIL } from "./frame.js";

const CLICK_PX = 4;

export class Pointer {
  /** @param {object} timeline What the gestures act on. */
  constructor(timeline) {
    this.timeline = timeline;
    this.drag = null;
  }

  position(event) {
    const box = this.timeline.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  down(event) {
    const { x, y } = this.position(event);
    const { view } = this.timeline.state;
    const kind = y < OVERVIEW && x >= RAIL ? "overview" : event.shiftKey || event.button === 1 ? "move" : "area";
    this.drag = { x, y, kind, start: view.start, end: view.end, time: view.at(x), moved: false };
    this.timeline.element.setPointerCapture(event.pointerId);
    if (kind === "overview") this.overview(x);
  }

  move(event) {
    const at = this.position(event);
    const { state } = this.timeline;
    state.pointer = at;
    const { drag } = this;
    if (!drag) return this.timeline.hoverAt(at);
    if (Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > CLICK_PX) drag.moved = true;
    if (!drag.moved) return undefined;
    if (drag.kind === "overview") this.overview(at.x);
    else if (drag.kind === "move") {
      const shift = (drag.x - at.x) * state.view.nsPerPixel;
      this.timeline.setView(drag.start + shift, drag.end + shift);
      this.timeline.scrollBy(drag.y - at.y);
      drag.y = at.y;
    } else if (drag.x >= RAIL) {
      const time = state.view.at(Math.max(RAIL, at.x));
      this.timeline.setArea({
        start: Math.min(drag.time, time), end: Math.max(drag.time, time),
        top: Math.min(drag.y, at.y), bottom: Math.max(drag.y, at.y),
      });
    }
    return undefined;
  }

  up(event) {
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    if (drag.moved) {
      if (drag.kind === "area" && drag.x >= RAIL) this.timeline.areaDone();
    } else if (drag.kind !== "overview") this.timeline.clickAt(this.position(event), event);
  }

  leave() {
    this.timeline.state.pointer = null;
    this.timeline.hoverAt(null);
  }

  overview(x) {
    const { view } = this.timeline.state;
    const time = ((x - view.left) / view.width) * view.span;
    this.timeline.setView(time - view.length / 2, time + view.length / 2);
  }

  wheel(event) {
    event.preventDefault();
    const { x } = this.position(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    const [dx, dy] = [event.deltaX * lines, event.deltaY * lines];
    if (!event.ctrlKey && (x < RAIL || event.shiftKey)) this.timeline.scrollBy(dy || dx);
    else if (Math.abs(dx) > Math.abs(dy)) this.timeline.panBy(dx);
    else this.timeline.zoomAt(Math.exp(dy * (event.ctrlKey ? 0.01 : 0.0022)), x);
  }
}
