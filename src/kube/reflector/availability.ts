import type { Clock, Timer } from "../../base/clock.ts";

/** Shortest and longest pause between two attempts, milliseconds. In between, it grows with the outage. */
const SHORTEST_PAUSE = 1_500;
const LONGEST_PAUSE = 15_000;

/** Longest pause for each node, milliseconds: 330 attempts a second of all nodes are no load. */
const PAUSE_PER_NODE = 3;

/**
 * Time over which lists are spread when versions have expired, milliseconds for each node, and the longest
 * one. A restarted server knows none of its clients' versions (kubernetes 86430), and can send the lists of
 * 5,000 nodes within 25 s.
 */
const SPREAD_PER_NODE = 5;
const LONGEST_SPREAD = 30_000;
/** Longest such time when versions expire while a server answers. Milliseconds. */
const LONE_SPREAD = 3_000;

/** Time within which the resources of a node are listed together, milliseconds. */
const TOGETHER = 25_000;

/** Size of a cluster that is not known yet. */
const UNKNOWN_SIZE = 5_000;

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
  readonly #nodes: () => number;
  readonly #waiting = new Set<() => void>();
  #timer: Timer | undefined;
  /** When the outage began, by the monotonic clock; undefined while the server answers. */
  #since: number | undefined;
  /** Whether this is the first pause of the outage. */
  #isFirst = true;
  /** Whether lists are due for the first time after an outage. */
  #isAfterOutage = false;
  /** When the lists with expired versions are due, by the monotonic clock. */
  #listsDue = Number.NEGATIVE_INFINITY;

  /**
   * @param random returns numbers in [0, 1)
   * @param nodes returns the number of the cluster's nodes, 0 if it is unknown
   */
  constructor(clock: Clock, random: () => number, nodes: () => number) {
    this.#clock = clock;
    this.#random = random;
    this.#nodes = nodes;
  }

  /** Returns true if the last attempt was not answered. */
  get isUnavailable(): boolean {
    return this.#since !== undefined;
  }

  /** Call this for each answer of the API server, whatever its status: all waiting reflectors continue. */
  answered(): void {
    if (this.#since !== undefined) {
      this.#isAfterOutage = true;
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
    const spread = Math.min(LONGEST_SPREAD, this.#size() * SPREAD_PER_NODE);
    if (isLone && !this.#isAfterOutage && this.#listsDue <= now)
      return this.#random() * Math.min(LONE_SPREAD, spread);
    // A resource that asks slightly later is listed with the others.
    if (this.#listsDue + TOGETHER < now) {
      this.#listsDue = now + this.#random() * spread;
      this.#isAfterOutage = false;
    }
    return Math.max(0, this.#listsDue - now);
  }

  #size(): number {
    return this.#nodes() || UNKNOWN_SIZE;
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
    const outage = this.#clock.monotonic() - (this.#since ?? 0);
    const most = within(this.#size() * PAUSE_PER_NODE, SHORTEST_PAUSE, LONGEST_PAUSE);
    const longest = within(outage * SHARE, SHORTEST_PAUSE, most);
    const random = this.#isFirst ? this.#random() : STEADY + (1 - STEADY) * this.#random();
    this.#isFirst = false;
    return longest * random;
  }
}

function within(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
