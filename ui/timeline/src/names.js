// Names of slices, fetched in blocks when they are first needed.

export const BLOCK = 1024;

export class NameStore {
  /** @param {(block: number) => Promise<string[]>} load */
  constructor(load, changed) {
    this.load = load;
    this.changed = changed;
    this.blocks = new Map();
  }

  /** The name, or "" until its block has arrived. */
  get(code) {
    const number = Math.floor(code / BLOCK);
    const block = this.blocks.get(number);
    if (block) return block[code % BLOCK] ?? "";
    if (block === undefined) {
      this.blocks.set(number, null);
      this.load(number).then(
        (names) => {
          this.blocks.set(number, names);
          this.changed();
        },
        () => this.blocks.delete(number),
      );
    }
    return "";
  }
}
