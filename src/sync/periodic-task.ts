import type { Clock, Timer } from "../base/clock.ts";

/** Repeats an action, each time one period after its last end. Starts when constructed. */
export class PeriodicTask {
  readonly #clock: Clock;
  readonly #period: () => number;
  readonly #action: () => Promise<void>;
  #timer: Timer | undefined;
  /** The period that the timer was set to, milliseconds. */
  #setTo = 0;
  #stopped = false;

  /**
   * @param period milliseconds; read before each turn, as it may change
   * @param action must not reject
   */
  constructor(clock: Clock, period: () => number, action: () => Promise<void>) {
    this.#clock = clock;
    this.#period = period;
    this.#action = action;
    this.#next();
  }

  /** Restarts the wait if the period changed; a running action does so at its end. */
  periodChanged(): void {
    if (this.#timer !== undefined && this.#period() !== this.#setTo) this.#next();
  }

  /** Starts no more turns. */
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
