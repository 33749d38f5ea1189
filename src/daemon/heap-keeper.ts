import type { Clock, Timer } from "../base/clock.ts";

/** How long nothing must have been done before memory is given back, milliseconds: changes go first. */
const QUIET = 3000;

/** Elements sent to the kernel, and as many endpoints decoded, that leave some 100 MB of garbage behind. */
const MUCH = 10_000;

/** Has memory given back when much was done and it has become quiet. */
export class HeapKeeper {
  readonly #clock: Clock;
  readonly #compact: () => void;
  #done = 0;
  #timer: Timer | undefined;
  #stopped = false;

  /** @param compact gives back memory that nobody uses; blocks for some 0.1 s */
  constructor(clock: Clock, compact: () => void) {
    this.#clock = clock;
    this.#compact = compact;
  }

  /** A sync sent so many elements; `isFull`: it compared everything, which is much work whatever it sent. */
  synced(elements: number, isFull: boolean): void {
    this.#done += isFull ? MUCH : elements;
    this.#timer?.cancel();
    if (this.#done < MUCH || this.#stopped) return;
    this.#timer = this.#clock.after(QUIET, () => {
      this.#done = 0;
      this.#compact();
    });
  }

  /** Does nothing any more. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }
}
