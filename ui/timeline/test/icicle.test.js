import assert from "node:assert/strict";
import { test } from "node:test";
import { placeTree, walkTree } from "../src/icicle_layout.js";

// main(10) -> [small(2), large(5) -> leaf(5)], other(20)
const tree = { parent: [-1, 0, 0, 2, -1], total: [10, 2, 5, 5, 20] };

test("children lie beneath their parent, the largest first, without an overlap", () => {
  const placed = placeTree(tree);
  assert.deepEqual([...placed.start], [20, 25, 20, 20, 0]);
  assert.deepEqual([...placed.row], [0, 1, 1, 2, 0]);
  assert.equal(placed.whole, 30);
  assert.equal(placed.depth, 3);
  for (let node = 0; node < 5; node++) {
    const above = tree.parent[node];
    if (above < 0) continue;
    assert.ok(placed.start[node] >= placed.start[above]);
    assert.ok(placed.start[node] + tree.total[node] <= placed.start[above] + tree.total[above]);
  }
  assert.equal(placeTree({ parent: [], total: [] }).depth, 0);
});

test("arrow keys walk to the parent, the largest child and the siblings, and stay at the edges", () => {
  const placed = placeTree(tree);
  const go = (key, node) => walkTree(key, node, tree.parent, placed);
  assert.equal(go("ArrowDown", -1), 4);
  assert.equal(go("ArrowRight", 4), 0);
  assert.equal(go("ArrowDown", 0), 2);
  assert.equal(go("ArrowRight", 2), 1);
  assert.equal(go("ArrowRight", 1), 1);
  assert.equal(go("ArrowLeft", 1), 2);
  assert.equal(go("ArrowDown", 3), 3);
  assert.equal(go("ArrowUp", 3), 2);
  assert.equal(go("ArrowUp", 0), 0);
});
