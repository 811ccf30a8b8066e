// The icicle as a Dash component.

import { Icicle } from "./icicle.js";

const { React } = window;

export class StallscopeIcicle extends React.Component {
  constructor(props) {
    super(props);
    this.place = React.createRef();
  }

  componentDidMount() {
    this.system = window.matchMedia?.("(prefers-color-scheme: light)");
    const theme = () => (this.system?.matches ? "light" : "dark");
    this.icicle = new Icicle(this.place.current, theme(), (node) => this.props.setProps?.({ chosen: node }));
    this.place.current.icicle = this.icicle; // for browser tests
    this.follow = () => this.icicle.setTheme(theme());
    this.system?.addEventListener("change", this.follow);
    this.icicle.setTree(this.props.tree);
  }

  componentDidUpdate(before) {
    if (before.tree !== this.props.tree) this.icicle.setTree(this.props.tree);
  }

  componentWillUnmount() {
    this.system?.removeEventListener("change", this.follow);
    this.icicle.destroy();
  }

  render() {
    return React.createElement("div", { id: this.props.id, ref: this.place, className: "icicle" });
  }
}
