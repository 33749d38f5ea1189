import type { Clock, Timer } from "../base/clock.ts";

/** Does something again and again, one period after its last end. Begins when it is made. */
export class PeriodicTask {
  readonly #clock: Clock;
  readonly #period: () => number;
  readonly #action: () => Promise<void>;
  #timer: Timer | undefined;
  /** What the timer was set to, milliseconds. */
  #setTo = 0;
  #stopped = false;

  /**
   * @param period milliseconds; asked for before each turn, as it may change
   * @param action must not reject
   */
  constructor(clock: Clock, period: () => number, action: () => Promise<void>) {
    this.#clock = clock;
    this.#period = period;
    this.#action = action;
    this.#next();
  }

  /** Waits anew if the period is another one now; a turn that is under way will do so at its end. */
  periodChanged(): void {
    if (this.#timer !== undefined && this.#period() !== this.#setTo) this.#next();
  }

  /** No turn begins any more. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #next(): void {
    this.#timer?.cancel();
    if (this.#stopped) return;
    this.#setTo = this.#period();
    this.#timer = this.#clock.after(this.#setTo, () => {
      this.#timer = undefined;
      void this.#action().finally(() => this.#next());
    });
  }
}
