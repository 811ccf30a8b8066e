// The rows of the timeline: a tree of groups and tracks, what of it is open, pinned, hidden or filtered, and where each
// row stands.

export const SLICE_HEIGHT = 15;
export const GROUP_HEIGHT = 22;
const BAND_HEIGHT = 20;
const COUNTER_HEIGHT = 40;
const GAP = 5;
const MOST_SLICE_ROWS = 40;

/** Height of a node's own row, px. */
export function heightOf(node, squeezed = false) {
  if (node.kind === "group") return GROUP_HEIGHT;
  if (node.kind === "band" || node.kind === "steps") return BAND_HEIGHT + GAP;
  if (node.kind === "counter") return COUNTER_HEIGHT + GAP;
  const rows = squeezed ? 1 : Math.min(MOST_SLICE_ROWS, Math.max(1, node.rows));
  return rows * SLICE_HEIGHT + GAP;
}

export class Rows {
  /** @param {object[]} tree Nodes: {key, label, detail, kind, track, rows, children, collapsed}. */
  constructor(tree) {
    this.tree = tree;
    this.collapsed = new Set();
    this.squeezed = new Set();
    this.hidden = new Set();
    this.pinned = [];
    this.order = new Map(); // parent key -> keys of its children, in the order that the user gave them
    this.filter = "";
    this.byKey = new Map();
    const visit = (node, parent) => {
      this.byKey.set(node.key, { node, parent });
      if (node.collapsed) this.collapsed.add(node.key);
      for (const child of node.children ?? []) visit(child, node.key);
    };
    for (const node of tree) visit(node, "");
    this.lay();
  }

  /** Places every visible row; `list` holds {node, y, height, depth, pinned}, pinned ones first, with y from 0. */
  lay() {
    this.list = [];
    let y = 0;
    const add = (node, depth, pinned) => {
      const height = heightOf(node, this.squeezed.has(node.key));
      this.list.push({ node, y, height, depth, pinned });
      y += height;
    };
    for (const key of this.pinned) if (this.byKey.has(key)) add(this.byKey.get(key).node, 0, true);
    this.pinnedHeight = y;
    const visit = (nodes, parent, depth) => {
      for (const node of this.sorted(nodes, parent)) {
        if (this.hidden.has(node.key) || !this.matches(node)) continue;
        add(node, depth, false);
        if (node.children?.length && (this.filter || !this.collapsed.has(node.key))) visit(node.children, node.key, depth + 1);
      }
    };
    visit(this.tree, "", 0);
    this.height = y;
  }

  sorted(nodes, parent) {
    const order = this.order.get(parent);
    if (!order) return nodes;
    const place = new Map(order.map((key, n) => [key, n]));
    return [...nodes].sort((a, b) => (place.get(a.key) ?? 1e9) - (place.get(b.key) ?? 1e9));
  }

  matches(node) {
    if (!this.filter) return true;
    const wanted = this.filter.toLowerCase();
    const text = `${node.label} ${node.detail ?? ""}`.toLowerCase();
    return text.includes(wanted) || (node.children ?? []).some((child) => this.matches(child));
  }

  /** What the user did to the rows, for `arrange`. */
  arrangement() {
    const { collapsed, squeezed, hidden, pinned, order } = this;
    return {
      known: new Set(this.byKey.keys()), collapsed: new Set(collapsed), squeezed: new Set(squeezed), hidden: new Set(hidden),
      pinned: [...pinned], order: new Map(order),
    };
  }

  /** Does to the rows what was done to those of another tree; rows that that one did not have stay as they are. */
  arrange({ known, collapsed, squeezed, hidden, pinned, order }) {
    const fresh = [...this.collapsed].filter((key) => !known.has(key));
    Object.assign(this, { collapsed: new Set([...collapsed, ...fresh]), squeezed, hidden, pinned, order });
    this.lay();
  }

  toggle(key) {
    const node = this.byKey.get(key)?.node;
    if (!node) return;
    const set = node.children?.length ? this.collapsed : this.squeezed;
    if (!set.delete(key)) set.add(key);
    this.lay();
  }

  pin(key) {
    const at = this.pinned.indexOf(key);
    if (at >= 0) this.pinned.splice(at, 1);
    else this.pinned.push(key);
    this.lay();
  }

  hide(key) {
    this.hidden.add(key);
    this.lay();
  }

  showAll() {
    this.hidden.clear();
    this.lay();
  }

  setFilter(text) {
    this.filter = text;
    this.lay();
  }

  /** Moves a node one place up (-1) or down (1) among its siblings. */
  move(key, by) {
    const entry = this.byKey.get(key);
    if (!entry) return;
    const siblings = entry.parent ? this.byKey.get(entry.parent).node.children : this.tree;
    const keys = this.sorted(siblings, entry.parent).map((node) => node.key);
    const from = keys.indexOf(key);
    const to = Math.max(0, Math.min(keys.length - 1, from + by));
    keys.splice(to, 0, ...keys.splice(from, 1));
    this.order.set(entry.parent, keys);
    this.lay();
  }

  /** The rows that show a track, pinned ones first; several where it is pinned. */
  ofTrack(track) {
    return this.list.filter((row) => row.node.track === track);
  }

  /** Opens the groups above a track and stops hiding it, so that it can be scrolled to. Returns its row or undefined. */
  open(track) {
    for (const [key, { node, parent }] of this.byKey) {
      if (node.track !== track) continue;
      this.hidden.delete(key);
      for (let up = parent; up; up = this.byKey.get(up).parent) {
        this.collapsed.delete(up);
        this.hidden.delete(up);
      }
    }
    this.lay();
    return this.list.find((row) => row.node.track === track);
  }
}
