import assert from "node:assert/strict";
import { test } from "node:test";
import { BOX, cut, placeNodes, stepFrom } from "../src/chain.js";

const nodes = [
  { key: "op", hop: -2, main: true }, { key: "other", hop: -1, main: false }, { key: "call", hop: -1, main: true },
  { key: "kernel", hop: 0, main: true }, { key: "next", hop: 1, main: true },
];
const arrows = [
  { from: "op", to: "call", decided: true }, { from: "other", to: "kernel", decided: false },
  { from: "call", to: "kernel", decided: true }, { from: "kernel", to: "next", decided: false },
];

test("hops are columns, and the chain is the top row", () => {
  const { places, width, height } = placeNodes(nodes);
  assert.deepEqual(["op", "call", "kernel", "next"].map((key) => places.get(key).row), [0, 0, 0, 0]);
  assert.deepEqual(["op", "other", "kernel", "next"].map((key) => places.get(key).column), [0, 1, 2, 3]);
  assert.equal(places.get("other").row, 1);
  const boxes = [...places.values()];
  for (const one of boxes) {
    assert.ok(one.x + BOX.width <= width && one.y + BOX.height <= height);
    assert.ok(boxes.every((two) => one === two || Math.abs(one.x - two.x) >= BOX.width || Math.abs(one.y - two.y) >= BOX.height));
  }
});

test("left goes to what decided, right along, up and down within a hop, and nowhere where there is nothing", () => {
  const { places } = placeNodes(nodes);
  const go = (key, pressed) => stepFrom(key, pressed, arrows, places);
  assert.equal(go("kernel", "ArrowLeft"), "call");
  assert.equal(go("call", "ArrowDown"), "other");
  assert.equal(go("other", "ArrowUp"), "call");
  assert.equal(go("other", "ArrowRight"), "kernel");
  assert.equal(go("kernel", "ArrowRight"), "next");
  assert.equal(go("next", "ArrowRight"), "next");
  assert.equal(go("gone", "ArrowLeft"), "gone");
});

test("long names are cut", () => {
  assert.equal(cut("abcdef", 4), "abc…");
  assert.equal(cut("abcd", 4), "abcd");
});
