// The graph of a chain: boxes and arrows as SVG, made by React, so that a name is always text.

import { BOX, cut, placeNodes, stepFrom } from "./chain.js";
import { colourOf, css } from "./theme.js";

const { React } = window;
const h = React.createElement;
const LETTERS = 20;

export class StallscopeGraph extends React.Component {
  constructor(props) {
    super(props);
    this.place = React.createRef();
    this.state = { focus: null };
  }

  componentDidMount() {
    const picked = this.place.current?.querySelector("[data-picked]");
    picked?.scrollIntoView?.({ block: "nearest", inline: "center" });
  }

  focused() {
    const { nodes, picked } = this.props;
    return nodes.some((node) => node.key === this.state.focus) ? this.state.focus : picked;
  }

  press(event) {
    const now = this.focused();
    if (event.key === "Enter" || event.key === " ") this.props.setProps?.({ chosen: now });
    else if (event.key.startsWith("Arrow")) {
      const next = stepFrom(now, event.key, this.props.arrows, placeNodes(this.props.nodes).places);
      this.setState({ focus: next }, () => this.place.current?.querySelector(`[data-key="${next}"]`)?.focus());
    } else return;
    event.preventDefault();
  }

  arrow({ from, to, label, decided }, places) {
    const [a, b] = [places.get(from), places.get(to)];
    const [x0, y0, x1, y1] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2];
    const bend = Math.max(14, (x1 - x0) / 2);
    const line = h("path", { d: `M${x0},${y0} C${x0 + bend},${y0} ${x1 - bend},${y1} ${x1 - 6},${y1}`, className: "graph-line" });
    const tip = h("path", { d: `M${x1},${y1} l-7,-4 v8 z`, className: "graph-tip" });
    const about = h("title", null, label);
    return h("g", { key: `${from}-${to}`, className: decided ? "graph-arrow decided" : "graph-arrow" }, about, line, tip);
  }

  box(node, place) {
    const { picked } = this.props;
    const colour = css(colourOf(node.category, false, "dark"));
    const text = (y, className, words) => h("text", { key: y, x: place.x + 10, y: place.y + y, className }, cut(words, LETTERS));
    return h(
      "g",
      {
        key: node.key, "data-key": node.key, "data-picked": node.key === picked ? true : undefined, role: "button",
        tabIndex: node.key === this.focused() ? 0 : -1, "aria-label": `${node.title}, ${node.detail}`,
        className: `graph-box${node.key === picked ? " picked" : ""}${node.main ? " main" : ""}`,
        onClick: () => this.props.setProps?.({ chosen: node.key }), onFocus: () => this.setState({ focus: node.key }),
      },
      h("title", null, `${node.title}\n${node.detail}`),
      h("rect", { x: place.x, y: place.y, width: BOX.width, height: BOX.height, rx: 3 }),
      h("rect", { x: place.x, y: place.y, width: 4, height: BOX.height, fill: colour, className: "graph-kind" }),
      text(18, "graph-name", node.title),
      text(34, "graph-detail", node.detail),
    );
  }

  render() {
    const { id, nodes, arrows } = this.props;
    const { places, width, height } = placeNodes(nodes);
    return h(
      "div",
      { id, ref: this.place, className: "graph", onKeyDown: (event) => this.press(event) },
      h(
        "svg",
        { width, height, role: "group", "aria-label": "Chain of dependencies. Arrow keys walk it, Enter goes to the slice." },
        arrows.filter((one) => places.has(one.from) && places.has(one.to)).map((one) => this.arrow(one, places)),
        nodes.map((node) => this.box(node, places.get(node.key))),
      ),
    );
  }
}
