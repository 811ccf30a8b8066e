// Where the nodes of an icicle lie: children beneath their parent, the largest first, across the parent's length.

/**
 * @param {{parent: number[], total: number[]}} tree Parents stand before their children; -1 at the top.
 * @returns {{start: Float64Array, row: Uint16Array, children: number[][], tops: number[], whole: number, depth: number}} In ns.
 */
export function placeTree({ parent, total }) {
  const n = parent.length;
  const children = Array.from({ length: n }, () => []);
  const tops = [];
  for (let node = 0; node < n; node++) (parent[node] < 0 ? tops : children[parent[node]]).push(node);
  const start = new Float64Array(n);
  const row = new Uint16Array(n);
  const largest = (nodes) => nodes.sort((a, b) => total[b] - total[a] || a - b);
  let whole = 0;
  for (const node of largest(tops)) {
    start[node] = whole;
    whole += total[node];
  }
  let depth = n ? 1 : 0;
  for (let node = 0; node < n; node++) {
    let at = start[node];
    for (const child of largest(children[node])) {
      start[child] = at;
      row[child] = row[node] + 1;
      depth = Math.max(depth, row[child] + 1);
      at += total[child];
    }
  }
  return { start, row, children, tops, whole, depth };
}

/** The node that a key leads to: up to the parent, down to the largest child, left and right to the siblings. */
export function walkTree(key, node, parent, placed) {
  if (node < 0) return placed.tops[0] ?? -1;
  if (key === "ArrowUp") return parent[node] < 0 ? node : parent[node];
  if (key === "ArrowDown") return placed.children[node][0] ?? node;
  const siblings = parent[node] < 0 ? placed.tops : placed.children[parent[node]];
  const at = siblings.indexOf(node) + (key === "ArrowLeft" ? -1 : 1);
  return siblings[Math.max(0, Math.min(siblings.length - 1, at))];
}
