import type { Clock, Timer } from "../../base/clock.ts";

/** The times of an {@link Availability}, in milliseconds. */
export interface OutageLimits {
  /** Shortest pause between two attempts. A pause is a tenth of the outage, within these limits. */
  readonly shortestPause: number;
  /** ... and at most this. */
  readonly longestPause: number;
  /**
   * Shortest time over which lists are spread when versions have expired: a tenth of the outage, within these
   * limits.
   */
  readonly shortestSpread: number;
  /** ... and at most this. */
  readonly longestSpread: number;
  /** Time over which lists are spread when versions expire while a server answers. */
  readonly loneSpread: number;
}

/**
 * After a long outage each node makes one attempt in some 15 s: 5,000 nodes make 330 a second. A restarted
 * server knows none of its clients' versions (kubernetes 86430), and can send the lists of 5,000 nodes within
 * 25 s.
 */
const DEFAULT_OUTAGE: OutageLimits = {
  shortestPause: 1_500,
  longestPause: 15_000,
  shortestSpread: 25_000,
  longestSpread: 30_000,
  loneSpread: 3_000,
};

/** Pause as a part of the outage: a server that was unavailable for 10 minutes is found again within one. */
const SHARE = 0.1;
/** Smallest part of a pause after the first one. By then the nodes no longer act in step. */
const STEADY = 0.9;

/**
 * Paces the requests of all reflectors of one API server while it does not answer: one of them asks at a
 * time, with pauses that grow with the outage, and the first answer lets all others continue. Another one
 * asks each time, because a server may answer for one resource and not for another.
 */
export class Availability {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #limits: OutageLimits;
  readonly #waiting = new Set<() => void>();
  #timer: Timer | undefined;
  /** When the outage began, by the monotonic clock; undefined while the server answers. */
  #since: number | undefined;
  /** Whether this is the first pause of the outage. */
  #isFirst = true;
  /** The length of the last outage, until lists were spread over it. */
  #lastOutage = 0;
  /** When the lists with expired versions are due, by the monotonic clock. */
  #listsDue = Number.NEGATIVE_INFINITY;

  /** @param random returns numbers in [0, 1) */
  constructor(clock: Clock, random: () => number, limits: OutageLimits = DEFAULT_OUTAGE) {
    this.#clock = clock;
    this.#random = random;
    this.#limits = limits;
  }

  /** Returns true if the last attempt was not answered. */
  get isUnavailable(): boolean {
    return this.#since !== undefined;
  }

  /** Call this for each answer of the API server, whatever its status: all waiting reflectors continue. */
  answered(): void {
    if (this.#since !== undefined) {
      this.#lastOutage = this.#clock.monotonic() - this.#since;
      this.#listsDue = Number.NEGATIVE_INFINITY;
    }
    this.#since = undefined;
    this.#isFirst = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    const callbacks = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of callbacks) callback();
  }

  /**
   * Call this after an attempt without an answer: it calls `callback` when the next attempt is due.
   * @returns a function that cancels the call
   */
  onTurn(callback: () => void): () => void {
    this.#since ??= this.#clock.monotonic();
    this.#waiting.add(callback);
    this.#scheduleTurn();
    return () => {
      this.#waiting.delete(callback);
      if (this.#waiting.size > 0) return;
      this.#timer?.cancel();
      this.#timer = undefined;
    };
  }

  /**
   * Returns the milliseconds until a list with an expired version is due. The current rules only lack the
   * latest changes, and all nodes may have to list. The lists of one node's resources are due at the same
   * time.
   * @param isLone the version expired within a working watch. A restarted server would break the watch
   * instead
   */
  untilList(isLone = false): number {
    const now = this.#clock.monotonic();
    const { shortestSpread, longestSpread, loneSpread } = this.#limits;
    if (isLone && this.#lastOutage === 0 && this.#listsDue <= now) return this.#random() * loneSpread;
    // A resource that asks slightly later is listed with the others.
    if (this.#listsDue + shortestSpread < now) {
      this.#listsDue = now + this.#random() * within(this.#lastOutage * SHARE, shortestSpread, longestSpread);
      this.#lastOutage = 0;
    }
    return Math.max(0, this.#listsDue - now);
  }

  #scheduleTurn(): void {
    this.#timer ??= this.#clock.after(this.#pause(), () => {
      this.#timer = undefined;
      const [first] = this.#waiting;
      if (first === undefined) return;
      this.#waiting.delete(first);
      first();
      if (this.#waiting.size > 0) this.#scheduleTurn();
    });
  }

  #pause(): number {
    const { shortestPause, longestPause } = this.#limits;
    const outage = this.#clock.monotonic() - (this.#since ?? 0);
    const longest = within(outage * SHARE, shortestPause, longestPause);
    const random = this.#isFirst ? this.#random() : STEADY + (1 - STEADY) * this.#random();
    this.#isFirst = false;
    return longest * random;
  }
}

function within(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
