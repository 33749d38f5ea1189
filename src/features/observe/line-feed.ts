import type { Clock, Timer } from "../../base/clock.ts";

/** Lines that come faster than they may be printed. Those beyond a rate are counted instead of made. */
export class LineFeed {
  readonly #clock: Pick<Clock, "after">;
  readonly #rate: number;
  readonly #omittedLine: (count: number) => string;
  #lines: string[] = [];
  /** The end of the current second; undefined before the next line. */
  #second: Timer | undefined;
  /** The lines that were made in the current second. */
  #made = 0;
  /** The omitted lines that were told. */
  #told = 0;
  #isEnded = false;
  #failure: unknown;
  #wake: () => void = () => {};
  /** All lines that were omitted. */
  omitted = 0;

  /**
   * @param rate maximum number of lines a second, and of lines that wait to be printed
   * @param omittedLine says how many lines of a second were omitted
   */
  constructor(clock: Pick<Clock, "after">, rate: number, omittedLine: (count: number) => string) {
    this.#clock = clock;
    this.#rate = rate;
    this.#omittedLine = omittedLine;
  }

  /** Adds a line, unless there are too many. @param make is only called if there are not */
  push(make: () => string): void {
    this.#second ??= this.#clock.after(1000, () => this.#endSecond());
    if (this.#made >= this.#rate || this.#lines.length >= this.#rate) {
      this.omitted += 1;
      return;
    }
    this.#made += 1;
    this.#add(make());
  }

  /** Ends the lines, perhaps with an error. */
  end(failure?: unknown): void {
    this.#second?.cancel();
    this.#tellOmitted();
    this.#failure ??= failure;
    this.#isEnded = true;
    this.#wake();
  }

  /** Yields the lines as they come. @throws the error of {@link end} */
  async *lines(): AsyncGenerator<string, void, undefined> {
    for (;;) {
      const some = this.#lines;
      this.#lines = [];
      yield* some;
      if (this.#lines.length > 0) continue;
      if (this.#isEnded) break;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  #endSecond(): void {
    this.#second = undefined;
    this.#made = 0;
    // Otherwise, too many lines wait already.
    if (this.#lines.length <= this.#rate) this.#tellOmitted();
  }

  #tellOmitted(): void {
    if (this.omitted > this.#told) this.#add(this.#omittedLine(this.omitted - this.#told));
    this.#told = this.omitted;
  }

  #add(line: string): void {
    this.#lines.push(line);
    this.#wake();
  }
}
