// The Dash component: React comes from the page. Only settled views, picks and areas go through Dash; all else stays here.

import { api } from "./api.js";
import { StallscopeField } from "./field.js";
import { StallscopeGraph } from "./graph.js";
import { StallscopeIcicle } from "./icicle_component.js";
import { Timeline } from "./timeline.js";

const { React } = window;

/** How the tracks were arranged, and the area, on the timeline that had a name, as long as the page is open. */
const arrangements = new Map();

class StallscopeTimeline extends React.Component {
  constructor(props) {
    super(props);
    this.place = React.createRef();
  }

  componentDidMount() {
    const emit = (values) => this.props.setProps?.(values);
    const options = { mirror: this.props.mirror, slack: Boolean(this.props.linked), arrangement: arrangements.get(this.props.remember) };
    this.timeline = new Timeline(this.place.current, api(this.props.api), {
      move: (start, end) => this.moveLinked(start, end),
      view: (start, end) => {
        this.emitted = `${Math.round(start)}-${Math.round(end)}`;
        emit({ view: [Math.round(start), Math.round(end)] });
      },
      pick: (slice) => {
        const counter = slice?.counter;
        // Counters have the last numbers of all tracks; the page counts them from the first counter.
        emit({ picked: counter === undefined ? slice : { ...slice, counter: counter - this.timeline.state.meta.firstCounter } });
      },
      area: (area) => emit({ area: area && { start: Math.round(area.start), end: Math.round(area.end), tracks: area.tracks } }),
      search: () => document.getElementById(this.props.search)?.focus(),
      ready: () => { this.place.current?.setAttribute("data-ready", "true"); },
    }, this.theme(), options);
    this.system = window.matchMedia?.("(prefers-color-scheme: light)");
    this.followSystem = () => this.timeline.setTheme(this.theme());
    this.system?.addEventListener("change", this.followSystem);
    this.place.current.timeline = this.timeline; // for measurements and browser tests
    this.apply({});
  }

  componentDidUpdate(before) {
    if (before.api !== this.props.api) {
      this.componentWillUnmount();
      this.componentDidMount();
      return;
    }
    this.apply(before);
  }

  /** Moves the timeline that this one is linked to along, so that both show the same stretch after their own step. */
  moveLinked(start, end) {
    const { linked } = this.props;
    if (linked) document.getElementById(linked.id)?.timeline?.setView(start + linked.shift, end + linked.shift, true);
  }

  /** Carries out what the page asked for, but never what this component told the page itself. */
  apply(before) {
    const { view, theme, filter, command } = this.props;
    if (theme && theme !== before.theme) this.timeline.setTheme(theme);
    if (filter !== undefined && filter !== before.filter) this.timeline.setFilter(filter);
    if (view && view !== before.view && `${view[0]}-${view[1]}` !== this.emitted) this.timeline.setView(view[0], view[1], true);
    if (command && command !== before.command) this.timeline.loaded.then(() => this.run(command));
  }

  run(command) {
    if (command.pick !== undefined) this.timeline.pick(command.pick, Boolean(command.band), { reveal: true, fit: Boolean(command.fit) });
    if (command.moment !== undefined) this.timeline.pickMoment(command.counter ?? null, command.moment, { reveal: true });
    // What was marked here before is the same area, on the tracks of this state of a recording that grows.
    if (command.area && !this.timeline.state.area) this.timeline.markArea(command.area);
    if (command.view) this.timeline.setView(command.view[0], command.view[1]);
    if (command.showAll) this.timeline.showAll();
    if (command.step) this.timeline.stepBy(command.step);
  }

  /** The theme that the page asked for, else the system's. */
  theme() {
    return this.props.theme ?? (window.matchMedia?.("(prefers-color-scheme: light)").matches ? "light" : "dark");
  }

  componentWillUnmount() {
    this.system?.removeEventListener("change", this.followSystem);
    const arrangement = this.props.remember && this.timeline.arrangement();
    if (arrangement) arrangements.set(this.props.remember, arrangement);
    this.timeline.destroy();
  }

  render() {
    return React.createElement("div", { id: this.props.id, ref: this.place, className: "timeline" });
  }
}

window.stallscope_timeline = { StallscopeField, StallscopeTimeline, StallscopeGraph, StallscopeIcicle };
