// Where the slices of a chain stand and which one a key leads to. A column is a hop; the chain itself is the top row.

export const BOX = { width: 148, height: 44, across: 179, down: 58, margin: 8 };

/**
 * Places the slices.
 *
 * @param {{key: string, hop: number, main: boolean}[]} nodes
 * @returns {{places: Map<string, {x: number, y: number, column: number, row: number}>, width: number, height: number}}
 */
export function placeNodes(nodes) {
  const columns = new Map();
  for (const node of nodes) columns.set(node.hop, [...(columns.get(node.hop) ?? []), node]);
  const hops = [...columns.keys()].sort((a, b) => a - b);
  const places = new Map();
  let rows = 1;
  hops.forEach((hop, column) => {
    const own = [...columns.get(hop)].sort((a, b) => Number(b.main) - Number(a.main));
    rows = Math.max(rows, own.length);
    own.forEach((node, row) => {
      places.set(node.key, { x: BOX.margin + column * BOX.across, y: BOX.margin + 10 + row * BOX.down, column, row });
    });
  });
  const width = 2 * BOX.margin + Math.max(0, hops.length - 1) * BOX.across + BOX.width;
  return { places, width, height: 2 * BOX.margin + 10 + (rows - 1) * BOX.down + BOX.height };
}

/** The slice that an arrow key leads to from `key`: along arrows to the left and right, within a hop up and down. */
export function stepFrom(key, pressed, arrows, places) {
  const here = places.get(key);
  if (!here) return key;
  if (pressed === "ArrowUp" || pressed === "ArrowDown") {
    const row = here.row + (pressed === "ArrowUp" ? -1 : 1);
    return [...places].find(([, place]) => place.column === here.column && place.row === row)?.[0] ?? key;
  }
  const back = pressed === "ArrowLeft";
  const near = arrows.filter((arrow) => (back ? arrow.to : arrow.from) === key);
  const best = near.find((arrow) => arrow.decided) ?? near[0];
  return best ? (back ? best.from : best.to) : key;
}

/** A text cut to a number of letters. */
export const cut = (text, letters) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
