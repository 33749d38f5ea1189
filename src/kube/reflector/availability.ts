import type { Clock, Timer } from "../../base/clock.ts";

/** The times of an {@link Availability}, in milliseconds. */
export interface OutageLimits {
  /** The pause between two attempts is a tenth of the outage: at least this, ... */
  readonly shortestPause: number;
  /** ... and at most this. */
  readonly longestPause: number;
  /** The time over which lists are spread when versions have expired is a tenth of the outage: at least this, ... */
  readonly shortestSpread: number;
  /** ... and at most this. */
  readonly longestSpread: number;
  /** The same for versions that expire while a server answers. */
  readonly loneSpread: number;
}

/**
 * One attempt of a node in some 15 s, when a server has been away for long: 5,000 nodes make 330 a second. A server that
 * restarted has none of the versions that its clients know (kubernetes 86430): it can send so many lists within 25 s.
 */
const DEFAULT_OUTAGE: OutageLimits = {
  shortestPause: 1_500,
  longestPause: 15_000,
  shortestSpread: 25_000,
  longestSpread: 30_000,
  loneSpread: 3_000,
};

/** The pause grows with the outage, so that a server is found again within a tenth of the time that it was away. */
const SHARE = 0.1;
/** All pauses but the first have at least this part of their full length: the nodes are out of step by then. */
const STEADY = 0.9;

/**
 * Paces the requests of all reflectors of one API server while it does not answer: one of them asks at a time, with
 * pauses that grow with the outage, and the first answer lets all others go on. Another one asks each time, because a
 * server may answer for one resource and not for another.
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
  /** When the lists are due whose versions have expired, by the monotonic clock. */
  #listsDue = Number.NEGATIVE_INFINITY;

  /** @param random returns numbers in [0, 1) */
  constructor(clock: Clock, random: () => number, limits: OutageLimits = DEFAULT_OUTAGE) {
    this.#clock = clock;
    this.#random = random;
    this.#limits = limits;
  }

  /** Whether the last attempt was not answered. */
  get isAway(): boolean {
    return this.#since !== undefined;
  }

  /** To be called for each answer of the API server, whatever its status: all that wait for their turn go on. */
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
   * To be called after an attempt that was not answered: calls `callback` when it is time for the next one.
   * @returns a function that cancels this
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
   * The milliseconds until a list whose version has expired is due. The rules in force are right but for the latest
   * changes, and all nodes may have to list. The lists of one node's resources are due at the same time.
   * @param isLone a watch that went well was told so: a server that restarted breaks it, and tells the next one
   */
  untilList(isLone = false): number {
    const now = this.#clock.monotonic();
    const { shortestSpread, longestSpread, loneSpread } = this.#limits;
    if (isLone && this.#lastOutage === 0 && this.#listsDue <= now) return this.#random() * loneSpread;
    // A resource that asks a little later than the others belongs to them.
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
