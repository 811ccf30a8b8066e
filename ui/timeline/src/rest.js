// What was typed, told when the typing pauses.

/** Tells of a text when it has rested, and of each text once. */
export class Rest {
  /**
   * @param {(text: string) => void} tell
   * @param {number|null} wait After how many ms of rest; null: only when it is asked to.
   */
  constructor(tell, wait, text = "") {
    this.tell = tell;
    this.wait = wait;
    this.told = text;
  }

  changed(text) {
    clearTimeout(this.timer);
    if (text === "") this.now(text);
    else if (this.wait !== null) this.timer = setTimeout(() => this.now(text), this.wait);
  }

  /** Tells it now. Returns whether it was new. */
  now(text) {
    clearTimeout(this.timer);
    if (text === this.told) return false;
    this.told = text;
    this.tell(text);
    return true;
  }
}
