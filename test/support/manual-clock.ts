import type { Clock, Timer } from "../../src/base/clock.ts";

interface Pending {
  readonly due: number;
  readonly callback: () => void;
}

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now: number;
  readonly #pending = new Set<Pending>();

  constructor(now = 0) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(milliseconds: number, callback: () => void): Timer {
    const entry = { due: this.#now + milliseconds, callback };
    this.#pending.add(entry);
    return { cancel: () => this.#pending.delete(entry) };
  }

  /** How many timers have neither fired nor been cancelled. */
  get timers(): number {
    return this.#pending.size;
  }

  /** Moves on, and fires what falls due on the way in the order in which it does. */
  advance(milliseconds: number): void {
    const until = this.#now + milliseconds;
    for (;;) {
      const next = [...this.#pending].filter(({ due }) => due <= until).sort((a, b) => a.due - b.due)[0];
      if (next === undefined) break;
      this.#pending.delete(next);
      this.#now = next.due;
      next.callback();
    }
    this.#now = until;
  }
}
