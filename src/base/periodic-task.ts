import type { Clock, Timer } from "./clock.ts";

/** Repeats an action, each time one period after its last end. Starts when constructed. */
export class PeriodicTask {
  readonly #clock: Clock;
  readonly #period: (took: number) => number;
  readonly #action: () => Promise<void>;
  #timer: Timer | undefined;
  /** The period that the timer was set to, milliseconds. */
  #setTo = 0;
  /** The length of the last turn, milliseconds. */
  #took = 0;
  #stopped = false;

  /**
   * @param period milliseconds; a function is asked before each turn, with the length of the last one, 0
   * before the first
   * @param action must not reject
   */
  constructor(clock: Clock, period: number | ((took: number) => number), action: () => Promise<void>) {
    this.#clock = clock;
    this.#period = typeof period === "number" ? () => period : period;
    this.#action = action;
    this.#next();
  }

  /** Restarts the wait if the period changed; a running action does so at its end. */
  periodChanged(): void {
    if (this.#timer !== undefined && this.#period(this.#took) !== this.#setTo) this.#next();
  }

  /** Starts no more turns. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #next(): void {
    this.#timer?.cancel();
    if (this.#stopped) return;
    this.#setTo = this.#period(this.#took);
    this.#timer = this.#clock.after(this.#setTo, () => void this.#turn());
  }

  async #turn(): Promise<void> {
    this.#timer = undefined;
    const startedAt = this.#clock.monotonic();
    await this.#action();
    this.#took = this.#clock.monotonic() - startedAt;
    this.#next();
  }
}
