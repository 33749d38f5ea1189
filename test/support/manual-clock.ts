import type { Clock, Timer } from "../../src/base/clock.ts";

interface Pending {
  readonly due: number;
  readonly callback: () => void;
}

/** A clock that only advances when a test says so. */
export class ManualClock implements Clock {
  /** The wall-clock time at the monotonic time 0. */
  #epoch: number;
  #monotonic = 0;
  readonly #pending = new Set<Pending>();

  /** @param now the wall-clock time at the start */
  constructor(now = 0) {
    this.#epoch = now;
  }

  now(): number {
    return this.#epoch + this.#monotonic;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  /** Sets the wall clock, as NTP does. */
  set(now: number): void {
    this.#epoch = now - this.#monotonic;
  }

  after(milliseconds: number, callback: () => void): Timer {
    const entry = { due: this.#monotonic + milliseconds, callback };
    this.#pending.add(entry);
    return { cancel: () => this.#pending.delete(entry) };
  }

  /** The number of timers that have neither fired nor been cancelled. */
  get timers(): number {
    return this.#pending.size;
  }

  /** Advances the clock and fires due timers in order. */
  advance(milliseconds: number): void {
    const until = this.#monotonic + milliseconds;
    for (;;) {
      const next = [...this.#pending].filter(({ due }) => due <= until).sort((a, b) => a.due - b.due)[0];
      if (next === undefined) break;
      this.#pending.delete(next);
      this.#monotonic = next.due;
      next.callback();
    }
    this.#monotonic = until;
  }
}
