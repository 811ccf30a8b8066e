import assert from "node:assert/strict";
import { test } from "node:test";
import { keysIn, moved, onTracks, told } from "../src/area.js";
import { formatQuantity } from "../src/quantity.js";
import { Rest } from "../src/rest.js";
import { Rows, heightOf } from "../src/rows.js";
import { BINS, TileStore, decodeTiles, levelFor, tileSpan } from "../src/tiles.js";
import { formatDuration, niceStep, tickBase, ticks } from "../src/time.js";
import { SHORTEST_NS, View } from "../src/view.js";

const near = (a, b, within = 1e-6) => assert.ok(Math.abs(a - b) <= within * Math.max(1, Math.abs(b)), `${a} is not ${b}`);

test("durations are written with three places and a unit", () => {
  assert.equal(formatDuration(0), "0 ns");
  assert.equal(formatDuration(999), "999 ns");
  assert.equal(formatDuration(1234), "1.23 µs");
  assert.equal(formatDuration(12_345_678), "12.3 ms");
  assert.equal(formatDuration(2e9), "2.00 s");
});

test("ticks are round and lie within the view", () => {
  assert.equal(niceStep(3), 5);
  assert.equal(niceStep(1000), 1000);
  assert.equal(niceStep(1001), 2000);
  const step = 200;
  const base = tickBase(123_456, step);
  const found = ticks(123_456, 124_456, step, base);
  assert.ok(found.length >= 4);
  for (const { time } of found) {
    assert.equal(time % step, 0);
    assert.ok(time >= 123_456 && time < 124_456);
  }
});

test("zooming keeps the time under the pointer", () => {
  const view = new View(1e9);
  view.place(200, 1000);
  for (const x of [200, 512, 1199]) {
    view.set(2e8, 4e8);
    const time = view.at(x);
    view.zoom(0.5, x);
    near(view.at(x), time);
    near(view.length, 1e8);
  }
});

test("the view stays within the recording and never collapses", () => {
  const view = new View(1e6);
  view.place(0, 100);
  view.pan(-1e9);
  assert.equal(view.start, 0);
  for (let n = 0; n < 200; n++) view.zoom(0.5, 50);
  assert.equal(view.length, SHORTEST_NS);
  for (let n = 0; n < 200; n++) view.zoom(2, 50);
  assert.deepEqual([view.start, view.end], [0, 1e6]);
});

test("reveal moves no more than it must", () => {
  const view = new View(1e6);
  view.place(0, 100);
  view.set(1000, 2000);
  assert.equal(view.reveal(1200, 1300), false);
  view.reveal(5000, 5100);
  near(view.length, 1000);
  assert.ok(view.start < 5000 && view.end > 5100);
});

function tileAnswer(level, tracks) {
  const slices = tracks.reduce((sum, track) => sum + track.slices.length, 0);
  const buffer = new ArrayBuffer(16 + 8 * tracks.length + slices * (6 * 4 + 2 + 1));
  new Uint32Array(buffer, 0, 4).set([0x54534c31, level, tracks.length, slices]);
  new Uint32Array(buffer, 16, 2 * tracks.length).set(tracks.flatMap((track) => [track.track, track.slices.length]));
  let offset = 16 + 8 * tracks.length;
  const all = tracks.flatMap((track) => track.slices);
  for (const [Type, field] of [
    [Float32Array, "start"], [Float32Array, "dur"], [Float32Array, "cover"], [Uint32Array, "ref"], [Uint32Array, "name"],
    [Uint32Array, "count"], [Uint16Array, "row"], [Uint8Array, "category"],
  ]) {
    new Type(buffer, offset, slices).set(all.map((slice) => slice[field]));
    offset += slices * Type.BYTES_PER_ELEMENT;
  }
  return buffer;
}

const slice = (ref) => ({ start: ref, dur: 1, cover: 1, ref, name: 2, count: 1, row: 3, category: 4 });

test("an answer is cut into one tile a track", () => {
  const tiles = decodeTiles(tileAnswer(3, [{ track: 7, slices: [slice(1), slice(2)] }, { track: 9, slices: [slice(3)] }]), 5);
  assert.deepEqual([...tiles.keys()], [7, 9]);
  assert.deepEqual([...tiles.get(7).ref], [1, 2]);
  assert.deepEqual([...tiles.get(9).row], [3]);
  assert.equal(tiles.get(9).base, 5 * tileSpan(3));
  assert.throws(() => decodeTiles(new TextEncoder().encode("<html>not a tile</html>").buffer, 0), /no tile/);
});

test("a bin is about a pixel", () => {
  for (const ns of [1, 3, 1000, 123_456]) {
    const bin = 2 ** levelFor(ns);
    assert.ok(bin >= ns / 1.5 && bin <= ns * 1.5 || ns <= 1);
  }
});

test("the store asks once, falls back to coarser tiles, and aborts what nobody waits for", async () => {
  const calls = [];
  const store = new TileStore((level, index, tracks, signal) => {
    calls.push({ level, index, tracks, signal });
    if (level === 9) return new Promise(() => {});
    return Promise.resolve(tileAnswer(level, tracks.map((track) => ({ track, slices: [slice(track)] }))));
  }, () => {});
  const span = tileSpan(4) * 2;
  store.want(4, 0, span, [1, 2], span);
  await new Promise((done) => setTimeout(done, 0));
  assert.deepEqual(calls.map((call) => [call.index, call.tracks]), [[0, [1, 2]], [1, [1, 2]]]);
  store.want(4, 0, span, [1, 2], span);
  assert.equal(calls.length, 2);
  const [coarser] = store.best(3, 1, 2);
  assert.equal(coarser.exact, false);
  assert.equal(coarser.tile.level, 4);
  assert.deepEqual([coarser.from, coarser.to], [tileSpan(3), 2 * tileSpan(3)]);
  store.want(9, 0, span, [1], span);
  store.want(4, 0, span, [1], span);
  assert.equal(calls[2].signal.aborted, true);
});

test("the store forgets the tiles used least recently", async () => {
  const store = new TileStore(
    (level, index, tracks) => Promise.resolve(tileAnswer(level, tracks.map((track) => ({ track, slices: [] })))), () => {}, 10);
  for (let index = 0; index < 30; index++) await store.request(0, index, [1]);
  assert.ok(store.tiles.size <= 10);
  assert.ok(store.get(0, 29, 1));
});

const TREE = [
  { key: "a", label: "Rank 0", kind: "group", children: [
    { key: "a1", label: "main", kind: "thread", track: 0, rows: 4 },
    { key: "a2", label: "stream 7", kind: "stream", track: 1, rows: 1 },
  ] },
  { key: "b", label: "Rank 1", kind: "group", collapsed: true, children: [{ key: "b1", label: "main", kind: "thread", track: 2, rows: 2 }] },
];

test("rows stand one below the other, and closed groups hide theirs", () => {
  const rows = new Rows(TREE);
  assert.deepEqual(rows.list.map((row) => row.node.key), ["a", "a1", "a2", "b"]);
  let y = 0;
  for (const row of rows.list) {
    assert.equal(row.y, y);
    y += heightOf(row.node);
  }
  assert.equal(rows.height, y);
  rows.toggle("b");
  rows.toggle("a");
  assert.deepEqual(rows.list.map((row) => row.node.key), ["a", "b", "b1"]);
});

test("pin, hide, filter, move and open", () => {
  const rows = new Rows(TREE);
  rows.pin("a2");
  assert.deepEqual(rows.list.map((row) => row.node.key), ["a2", "a", "a1", "a2", "b"]);
  assert.equal(rows.ofTrack(1).length, 2);
  rows.pin("a2");
  rows.hide("a1");
  assert.deepEqual(rows.list.map((row) => row.node.key), ["a", "a2", "b"]);
  assert.equal(rows.open(2).node.key, "b1");
  rows.showAll();
  rows.setFilter("stream");
  assert.deepEqual(rows.list.map((row) => row.node.key), ["a", "a2"]);
  rows.setFilter("");
  rows.move("a2", -1);
  assert.deepEqual(rows.list.slice(0, 3).map((row) => row.node.key), ["a", "a2", "a1"]);
});

test("with slack the view may reach past both ends, and no further", () => {
  const view = new View(1000, 500);
  view.place(0, 100);
  view.set(-300, 200);
  assert.deepEqual([view.start, view.end], [-300, 200]);
  view.set(-900, -400);
  assert.deepEqual([view.start, view.end], [-500, 0]);
  view.set(-9000, 9000);
  assert.deepEqual([view.start, view.end], [-500, 1500]);
});

test("quantities have three or four places and their unit, bytes a binary one", () => {
  assert.equal(formatQuantity(0, "bytes"), "0 B");
  assert.equal(formatQuantity(1536, "bytes"), "1.5 KiB");
  assert.equal(formatQuantity(3 * 2 ** 30, "bytes/s"), "3 GiB/s");
  assert.equal(formatQuantity(-2048, "bytes"), "-2 KiB");
  assert.equal(formatQuantity(2.25049, "cores"), "2.25 cores");
  assert.equal(formatQuantity(12345678, ""), "12,350,000");
});

test("an arrangement of rows is the same again on another tree, whose new rows stay as they come", () => {
  const track = (key) => ({ key, label: key, kind: "thread", rows: 1, track: 0 });
  const group = (key, children, collapsed) => ({ key, label: key, kind: "group", children, collapsed });
  const rows = new Rows([group("a", [track("a1"), track("a2")]), group("b", [track("b1")])]);
  rows.toggle("a");
  rows.pin("b1");
  rows.hide("a2");
  const other = new Rows([group("a", [track("a1"), track("a2")]), group("b", [track("b1")]), group("c", [track("c1")], true)]);
  other.arrange(rows.arrangement());
  assert.deepEqual(other.list.map((row) => row.node.key), ["b1", "a", "b", "b1", "c"]);
  rows.pin("b1");
  assert.deepEqual(other.pinned, ["b1"]);
});

test("a text is told once it has rested, at once when it is empty or asked for, and never twice", async () => {
  const told = [];
  const rest = new Rest((text) => told.push(text), 5);
  for (const text of ["a", "ab", "abc"]) rest.changed(text);
  assert.deepEqual(told, []);
  await new Promise((done) => setTimeout(done, 20));
  assert.deepEqual(told, ["abc"]);
  assert.equal(rest.now("abc"), false);
  assert.equal(rest.now("abcd"), true);
  rest.changed("");
  assert.deepEqual(told, ["abc", "abcd", ""]);
  const only = new Rest((text) => told.push(text), null);
  only.changed("x");
  await new Promise((done) => setTimeout(done, 20));
  assert.equal(told.length, 3);
});

test("an area stays on its tracks and at its time when more of the recording is shown", () => {
  const tree = (first) => [
    { key: "r0", label: "rank 0", kind: "group", children: [
      { key: "r0/gpu", label: "gpu", kind: "band", track: first },
      { key: "r0/t1", label: "main", kind: "thread", rows: 2, track: first + 7 },
    ] },
  ];
  const rows = new Rows(tree(0));
  const visible = rows.list.map((row) => ({ ...row, screen: row.y }));
  const area = { start: 100, end: 300, top: 5, bottom: 40 };
  area.keys = keysIn(area, [...visible, { ...visible[1], pinned: true }]);
  assert.deepEqual(area.keys, ["r0/gpu"]); // a group is no track, a pinned one counts once
  assert.deepEqual(told(area, rows), { start: 100, end: 300, tracks: [0] });
  const more = new Rows(tree(3));
  assert.deepEqual(onTracks({ start: 100, end: 300, tracks: [0, 99] }, rows), { start: 100, end: 300, keys: ["r0/gpu"] });
  assert.equal(onTracks({ start: 100, end: 300, tracks: [99] }, rows), null);

  const kept = moved(area, "1700000000000000100", "1700000000000000000", more, 1000);
  assert.deepEqual(told(kept, more), { start: 200, end: 400, tracks: [3] });
  assert.equal(moved(area, "0", "0", new Rows([]), 1000), null);
  assert.equal(moved(area, "0", "0", more, 100), null);
  assert.equal(moved(area, "0", "300", more, 1000), null);
});
