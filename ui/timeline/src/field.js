// A line of text that the page hears of when the typing pauses. What is in it is the browser's alone: it is never written
// back while somebody types. (Dash's own field with a delay sets the caret back after each letter, one task later; the
// letter that comes in between ends up in the wrong place.)

import { Rest } from "./rest.js";

const { React } = window;

export class StallscopeField extends React.Component {
  constructor(props) {
    super(props);
    this.box = React.createRef();
    this.rest = new Rest((value) => this.props.setProps?.({ value }), props.wait ?? null, props.value ?? "");
  }

  componentDidUpdate(before) {
    const { value } = this.props;
    if (value === before.value || value === this.rest.told) return;
    this.rest.told = value ?? "";
    this.box.current.value = this.rest.told;
  }

  componentWillUnmount() {
    clearTimeout(this.rest.timer);
  }

  pressed(event) {
    if (event.key !== "Enter") return;
    if (!this.rest.now(event.target.value)) this.props.setProps?.({ submits: (this.props.submits ?? 0) + 1 });
  }

  render() {
    const { id, type, placeholder, value } = this.props;
    return React.createElement("input", {
      id, type, placeholder, ref: this.box, defaultValue: value ?? "", className: "field", spellCheck: false, autoComplete: "off",
      "aria-label": placeholder, onChange: (event) => this.rest.changed(event.target.value),
      onBlur: (event) => this.rest.now(event.target.value), onKeyDown: (event) => this.pressed(event),
    });
  }
}
