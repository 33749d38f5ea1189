import type { Clock, Timer } from "../../base/clock.ts";

/** Lines that come faster than they may be printed. Those beyond a rate are counted instead of made. */
export class LineFeed {
  readonly #clock: Pick<Clock, "monotonic" | "after">;
  readonly #rate: number;
  readonly #omittedLine: (count: number) => string;
  #lines: string[] = [];
  /** When the current second began, on the monotonic clock. */
  #since = Number.NEGATIVE_INFINITY;
  #made = 0;
  #omitted = 0;
  #timer: Timer | undefined;
  #isEnded = false;
  #failure: unknown;
  #wake: () => void = () => {};
  /** All lines that were omitted. */
  omitted = 0;

  /**
   * @param rate maximum number of lines a second, and of lines that wait to be printed
   * @param omittedLine says how many lines of a second were omitted
   */
  constructor(
    clock: Pick<Clock, "monotonic" | "after">,
    rate: number,
    omittedLine: (count: number) => string,
  ) {
    this.#clock = clock;
    this.#rate = rate;
    this.#omittedLine = omittedLine;
  }

  /** Adds a line, unless there are too many. @param make is only called if there are not */
  push(make: () => string): void {
    const now = this.#clock.monotonic();
    if (now - this.#since >= 1000) {
      this.#tellOmitted();
      this.#since = now;
      this.#made = 0;
    }
    if (this.#made >= this.#rate || this.#lines.length >= this.#rate) {
      this.#omitted += 1;
      this.omitted += 1;
      this.#timer ??= this.#clock.after(this.#since + 1000 - now, () => this.#tellOmitted());
      return;
    }
    this.#made += 1;
    this.#add(make());
  }

  /** Ends the lines, perhaps with an error. */
  end(failure?: unknown): void {
    this.#tellOmitted(true);
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

  /** @param isLast whether it is told even if too many lines wait already */
  #tellOmitted(isLast = false): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#omitted === 0 || (!isLast && this.#lines.length > this.#rate)) return;
    this.#add(this.#omittedLine(this.#omitted));
    this.#omitted = 0;
  }

  #add(line: string): void {
    this.#lines.push(line);
    this.#wake();
  }
}
