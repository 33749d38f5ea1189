/** So many lines of one kind are logged within one window, milliseconds. */
const MAX_LINES = 20;
const WINDOW = 600_000;

/** Keeps lines of one kind from flooding the log, as when another program changes our rules again and again. */
export class LogLimit {
  #startedAt = Number.NEGATIVE_INFINITY;
  #lines = 0;

  /**
   * Counts a line that is due at `now`, milliseconds.
   * @returns the fields to log it with, which announce a pause in the last line before one; undefined in the pause
   */
  fields(now: number): Readonly<Record<string, string>> | undefined {
    if (now - this.#startedAt >= WINDOW) {
      this.#startedAt = now;
      this.#lines = 0;
    }
    this.#lines++;
    if (this.#lines > MAX_LINES) return undefined;
    return this.#lines === MAX_LINES ? { hint: "further ones are not logged for some minutes" } : {};
  }
}
