import assert from "node:assert/strict";
import { test } from "node:test";
import { endsOf, placesOf, wayTo } from "../src/frame.js";
import { Keyboard } from "../src/keyboard.js";
import { NameStore } from "../src/names.js";
import { Raster } from "../src/raster.js";
import { BANDS, THEMES, colourOf, groundPixel, pixelsOf } from "../src/theme.js";
import { View } from "../src/view.js";

const context = {
  createImageData: (width, height) => ({ data: new Uint8ClampedArray(width * height * 4), width, height }),
  putImageData: () => {},
};

function tile(slices) {
  const column = (Type, field) => Type.from(slices.map((slice) => slice[field]));
  return {
    n: slices.length, base: 0, start: column(Float32Array, "start"), dur: column(Float32Array, "dur"),
    row: column(Uint16Array, "row"), pixels: column(Uint32Array, "pixel"),
  };
}

function painted(slices, { ratio = 1, from = 0, to = 100, rows = 2, top = 0 } = {}) {
  const raster = new Raster(context);
  raster.resize(100, 40, ratio);
  raster.clear(1);
  const view = new View(1000);
  view.place(0, 100);
  raster.paint(tile(slices), view, 0, rows, 15, top, from, to);
  raster.spread(0, rows, 15, top);
  return (x, y) => raster.pixels[Math.round(y * ratio) * raster.width + Math.round(x * ratio)];
}

test("a slice fills its pixels and its row, and leaves the gap to the next row", () => {
  const at = painted([{ start: 100, dur: 400, row: 1, pixel: 7 }]);
  assert.equal(at(9, 20), 1);
  assert.equal(at(10, 15), 7);
  assert.equal(at(48, 28), 7);
  assert.equal(at(49, 20), 1);
  assert.equal(at(20, 29), 1);
  assert.equal(at(20, 5), 1);
});

test("a slice of no length is still one pixel, and a deeper row than there is room for is left out", () => {
  const at = painted([{ start: 500, dur: 0, row: 0, pixel: 7 }, { start: 0, dur: 1000, row: 5, pixel: 9 }]);
  assert.equal(at(50, 3), 7);
  assert.equal(at(51, 3), 1);
  assert.equal(at(10, 3), 1);
});

test("painting keeps to its stretch and below the header, at any pixel ratio", () => {
  for (const ratio of [1, 1.5, 2]) {
    const at = painted([{ start: -500, dur: 5000, row: 0, pixel: 7 }], { ratio, from: 20, to: 40, top: 6 });
    assert.equal(at(19, 8), 1);
    assert.equal(at(20, 8), 7);
    assert.equal(at(39, 8), 7);
    assert.equal(at(40, 8), 1);
    assert.equal(at(30, 4), 1);
  }
});

test("every stall cause has a colour of its own", () => {
  const colours = ["input", "cpu_fallback", "compile", "synchronization", "allocation", "launch", "dispatch"].map((cause) => BANDS[cause].join());
  assert.equal(new Set(colours).size, colours.length);
  assert.deepEqual(colourOf("no such category", false, "dark"), colourOf("neither", true, "dark"));
});

test("blocks that are mostly empty are dimmer than full ones", () => {
  const of = (cover, count) => pixelsOf({ n: 1, category: [0], name: [5], cover: [cover], count: [count] }, ["kernel"], false, "dark")[0];
  assert.notEqual(of(0.1, 9), of(1, 9));
  assert.equal(of(1, 9), of(0, 1));
  assert.notEqual(of(1, 1), groundPixel(THEMES.dark.ground));
});

test("names arrive in blocks, once, and a failed block is asked for again", async () => {
  let calls = 0;
  const store = new NameStore((block) => (++calls === 1 ? Promise.reject(new Error("gone")) : Promise.resolve([`name of block ${block}`])), () => {});
  assert.equal(store.get(1024), "");
  assert.equal(store.get(1024), "");
  await new Promise((done) => setTimeout(done, 0));
  assert.equal(store.get(1024), "");
  await new Promise((done) => setTimeout(done, 0));
  assert.equal(store.get(1024), "name of block 1");
  assert.equal(calls, 2);
});

test("held keys move and accelerate; keys with a modifier are left to the browser", () => {
  const moved = [];
  const act = { zoom: (factor) => moved.push(factor), pan: (px) => moved.push(px), scroll: () => {} };
  let picked = 0;
  const keyboard = new Keyboard({ f: () => picked++ }, () => {});
  const press = (key, more = {}) => keyboard.down({ key, preventDefault: () => {}, ...more });
  press("d");
  const began = performance.now();
  keyboard.step(16, began, act);
  keyboard.step(16, began + 2000, act);
  assert.ok(moved[1] > 2 * moved[0] && moved[0] > 0);
  keyboard.up({ key: "D" });
  assert.equal(keyboard.step(16, began, act), false);
  press("f");
  press("f", { ctrlKey: true });
  assert.equal(picked, 1);
});

test("shift with an arrow key is a key of its own", () => {
  const moved = [];
  const keyboard = new Keyboard({ "shift+arrowup": () => moved.push("up") }, () => {});
  keyboard.down({ key: "ArrowUp", shiftKey: true, preventDefault: () => {} });
  assert.deepEqual(moved, ["up"]);
  assert.equal(keyboard.held.size, 0);
  keyboard.down({ key: "ArrowUp", preventDefault: () => {} });
  assert.equal(keyboard.held.size, 1);
});

test("a track that is pinned is found in both of its rows, but not behind the pinned ones", () => {
  const view = new View(1000);
  view.place(0, 100);
  const row = (screen, pinned) => ({ node: { track: 4, kind: "stream" }, screen, height: 20, pinned });
  const state = { view, top: 10, rows: { pinnedHeight: 20 }, visible: [row(10, true), row(60, false)] };
  assert.deepEqual(placesOf(state, { track: 4, row: 0, time: 500 }).map(({ x, y }) => [x, y]), [[50, 19.5], [50, 69.5]]);
  state.visible[1].screen = 15;
  assert.equal(placesOf(state, { track: 4, row: 0, time: 500 }).length, 1);
  assert.equal(placesOf(state, { track: 5, row: 0, time: 500 }).length, 0);
});

test("an arrow to a row that is scrolled away leads to the edge towards it", () => {
  const view = new View(1000);
  view.place(0, 100);
  const row = (track, screen) => ({ node: { track, kind: "stream" }, screen, height: 20, pinned: false });
  const list = [row(1, -300), row(2, 60), row(3, 900)];
  const state = { view, top: 10, height: 400, rows: { pinnedHeight: 20, list }, visible: [list[1]] };
  const ends = (track) => endsOf(state, { track, row: 0, time: 500 }).map(({ x, y, away }) => [x, y, away]);
  assert.deepEqual([ends(1), ends(2), ends(3), ends(4)], [[[50, 30, true]], [[50, 69.5, undefined]], [[50, 400, true]], []]);
});

test("a line deep in a tall row is scrolled into sight, and what is in sight stays", () => {
  const state = { top: 100, height: 400, scroll: 0, rows: { pinnedHeight: 0 } };
  const row = { node: { kind: "thread" }, y: 200, height: 30 * 15 + 5, pinned: false };
  assert.equal(wayTo(state, row, 2), 0);
  const far = wayTo(state, row, 25);
  const y = 100 + row.y - far + 2 + 25 * 15;
  assert.ok(y > 100 && y + 15 <= 400, `${y} is not in sight`);
  assert.equal(wayTo({ ...state, scroll: 500 }, row, 0), 100 + 200 - 500 - 100 - 40); // above: its first line, with room
  assert.equal(wayTo(state, { ...row, pinned: true }, 25), 0);
});
