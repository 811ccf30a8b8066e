// Tiles: the slices of a track within one power-of-two stretch of time, as the server sends them, and the store of them.
//
// A tile of level L covers BINS bins of 2^L ns. Slices at least one bin wide come whole; the rest of a bin comes as one
// block with its count and the share of the bin that it covers.

export const BINS = 1024;
const MAGIC = 0x54534c31; // "1LST": a wrong answer (an error page, say) is refused before it is read as numbers
const MOST_REQUESTS = 4;
const HEADER = 4; // words before the per-track pairs: magic, level, number of tracks, number of slices

/** The level at which a bin is about one pixel wide, or a little more. */
export function levelFor(nsPerPixel) {
  return Math.max(0, Math.min(52, Math.round(Math.log2(Math.max(nsPerPixel, 1)))));
}

export const tileSpan = (level) => BINS * 2 ** level;
const keyOf = (level, index, track) => `${level}/${index}/${track}`;

/**
 * Reads the server's answer: one tile for each track in it.
 *
 * Layout, little endian: u32 magic, level, tracks, slices; per track u32 track, count; then the columns of all slices one
 * after the other: f32 start and f32 dur (ns from the tile's start), f32 cover, u32 ref, u32 name, u32 count, u16 row,
 * u8 category.
 */
export function decodeTiles(buffer, index) {
  const head = new Uint32Array(buffer, 0, HEADER);
  if (head[0] !== MAGIC) throw new Error("the answer is no tile");
  const [, level, tracks, slices] = head;
  const pairs = new Uint32Array(buffer, HEADER * 4, tracks * 2);
  let offset = (HEADER + tracks * 2) * 4;
  const column = (Type) => {
    const values = new Type(buffer, offset, slices);
    offset += slices * Type.BYTES_PER_ELEMENT;
    return values;
  };
  const start = column(Float32Array);
  const dur = column(Float32Array);
  const cover = column(Float32Array);
  const ref = column(Uint32Array);
  const name = column(Uint32Array);
  const count = column(Uint32Array);
  const row = column(Uint16Array);
  const category = column(Uint8Array);
  const tiles = new Map();
  let first = 0;
  for (let n = 0; n < tracks; n++) {
    const track = pairs[2 * n];
    const last = first + pairs[2 * n + 1];
    const part = (values) => values.subarray(first, last);
    tiles.set(track, {
      level, index, n: last - first, base: index * tileSpan(level), span: tileSpan(level), used: 0,
      start: part(start), dur: part(dur), cover: part(cover), ref: part(ref), name: part(name), count: part(count),
      row: part(row), category: part(category),
    });
    first = last;
  }
  return tiles;
}

/** Keeps tiles, asks for missing ones, forgets the ones not used for longest. */
export class TileStore {
  /**
   * @param {(level: number, index: number, tracks: number[], signal: AbortSignal) => Promise<ArrayBuffer>} load
   * @param {() => void} changed Called when tiles have arrived.
   * @param {number} most How many tiles to keep.
   */
  constructor(load, changed, most = 4000) {
    this.load = load;
    this.changed = changed;
    this.most = most;
    this.tiles = new Map();
    this.running = new Map(); // request key -> {controller, keys, level}
    this.failed = 0;
    this.clock = 0;
  }

  get(level, index, track) {
    const tile = this.tiles.get(keyOf(level, index, track));
    if (tile) tile.used = ++this.clock;
    return tile;
  }

  /** The tile, or coarser ones cut to its stretch, or the finer ones that are here: [{tile, from, to}], times in ns. */
  best(level, index, track) {
    const exact = this.get(level, index, track);
    const from = index * tileSpan(level);
    const to = from + tileSpan(level);
    if (exact) return [{ tile: exact, from, to, exact: true }];
    for (let up = 1; up <= 12; up++) {
      const tile = this.get(level + up, Math.floor(index / 2 ** up), track);
      if (tile) return [{ tile, from, to, exact: false }];
    }
    const finer = [];
    for (const child of [2 * index, 2 * index + 1]) {
      const tile = level > 0 && this.get(level - 1, child, track);
      if (tile) finer.push({ tile, from: tile.base, to: tile.base + tile.span, exact: false });
    }
    return finer;
  }

  /** Asks for what [start, end) of these tracks lacks at a level; aborts requests that nobody waits for any more. */
  want(level, start, end, tracks, span) {
    const first = Math.max(0, Math.floor(start / tileSpan(level)));
    const last = Math.floor((Math.min(end, span) - 1) / tileSpan(level));
    for (const [key, request] of this.running) {
      if (request.level !== level || request.index < first - 1 || request.index > last + 1) {
        request.controller.abort();
        this.running.delete(key);
      }
    }
    const asked = new Set([...this.running.values()].flatMap((request) => request.keys));
    for (let index = first; index <= last; index++) {
      const missing = tracks.filter((track) => {
        const key = keyOf(level, index, track);
        return !this.tiles.has(key) && !asked.has(key);
      });
      if (missing.length && this.running.size < MOST_REQUESTS) this.request(level, index, missing);
    }
  }

  async request(level, index, tracks) {
    const controller = new AbortController();
    const keys = tracks.map((track) => keyOf(level, index, track));
    const key = `${keys[0]}+${keys.length}`;
    this.running.set(key, { controller, keys, level, index });
    try {
      const buffer = await this.load(level, index, tracks, controller.signal);
      if (controller.signal.aborted) return;
      for (const [track, tile] of decodeTiles(buffer, index)) {
        tile.used = ++this.clock;
        this.tiles.set(keyOf(level, index, track), tile);
      }
      this.failed = 0;
      this.forget();
    } catch (error) {
      if (!controller.signal.aborted) this.failed += 1;
    } finally {
      if (this.running.get(key)?.controller === controller) this.running.delete(key);
      // After a failure the next try waits for the next change of the view, so that a dead server is not hammered.
      if (!controller.signal.aborted && this.failed < 3) this.changed();
    }
  }

  forget() {
    if (this.tiles.size <= this.most) return;
    const oldest = [...this.tiles].sort((a, b) => a[1].used - b[1].used).slice(0, this.tiles.size - this.most * 0.8);
    for (const [key] of oldest) this.tiles.delete(key);
  }

  clear() {
    for (const request of this.running.values()) request.controller.abort();
    this.running.clear();
    this.tiles.clear();
  }
}
