import type { Clock } from "../../base/clock.ts";
import type { ApiFailure } from "../client/api-failure.ts";
import type { Availability } from "./availability.ts";

/** Limits of the waits after failures that the server answered with, in milliseconds. */
export interface BackoffLimits {
  /** The longest wait after the first failure; doubled for each further one. */
  readonly base: number;
  /** The longest wait, unless the server's Retry-After asks for more. */
  readonly cap: number;
  /** The longest Retry-After that is honoured. */
  readonly retryAfterCap: number;
}

/** The limits of client-go's reflector, 800 ms to 30 s. */
export const DEFAULT_BACKOFF: BackoffLimits = { base: 800, cap: 30_000, retryAfterCap: 300_000 };

/** What a reflector waits for before its next attempt. */
export type Wait =
  | { readonly kind: "time"; readonly milliseconds: number }
  /** The server does not answer: this reflector's turn to ask, or an answer to another one. */
  | { readonly kind: "turn" };

/** No wait. */
export const AT_ONCE: Wait = { kind: "time", milliseconds: 0 };

/**
 * Decides what one reflector waits for between its attempts, and waits. Failures that were answered have an exponential
 * back-off with full jitter, which never gives up. Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export class RetryPacing {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #limits: BackoffLimits;
  readonly #availability: Availability;
  #failures = 0;
  /** False after a 410 until a watch succeeds: a server that answers 410 again and again is an ordinary failure. */
  #isFirstExpiry = true;
  /** A watch that went well has ended, and nothing was answered since. */
  #isWatchLast = false;
  #isStopped = false;
  /** Ends the current wait. */
  #endPause: (() => void) | undefined;

  /**
   * @param random returns numbers in [0, 1)
   * @param availability shared by the reflectors of one API server
   */
  constructor(clock: Clock, random: () => number, limits: BackoffLimits, availability: Availability) {
    this.#clock = clock;
    this.#random = random;
    this.#limits = limits;
    this.#availability = availability;
  }

  /** Notes an answer of the API server. */
  answered(): void {
    this.#isWatchLast = false;
    this.#availability.answered();
  }

  /** Starts over with the shortest waits, after a watch that went well. */
  reset(): void {
    this.#failures = 0;
    this.#isFirstExpiry = true;
    this.#isWatchLast = true;
  }

  /** @param newsCame the watch that was closed at once had reported something new: then the wait is the shortest */
  afterShortWatch(newsCame: boolean): Wait {
    if (newsCame) this.#failures = 0;
    return this.#backOff(0);
  }

  /**
   * Decides what to wait for after a failure.
   * @param wasAnswered the server had begun to answer
   */
  afterFailure(failure: ApiFailure, wasAnswered: boolean): Wait {
    if (!wasAnswered) return { kind: "turn" };
    if (failure.kind !== "gone" || !this.#isFirstExpiry) return this.#backOff(failure.retryAfter);
    this.#isFirstExpiry = false;
    return { kind: "time", milliseconds: this.#availability.untilList(this.#isWatchLast) };
  }

  /** @param retryAfter milliseconds that the server asked for. The jitter is added to it: it asks all its clients for the same. */
  #backOff(retryAfter: number): Wait {
    const { base, cap, retryAfterCap } = this.#limits;
    const ceiling = Math.min(cap, base * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    return { kind: "time", milliseconds: Math.min(retryAfter, retryAfterCap) + this.#random() * ceiling };
  }

  /** Waits; while the server does not answer, for this reflector's turn. {@link RetryPacing.stop} ends it. */
  async pause(wait: Wait): Promise<void> {
    if (wait.kind === "time" && wait.milliseconds > 0) {
      await this.#until((end) => {
        const timer = this.#clock.after(wait.milliseconds, end);
        return () => timer.cancel();
      });
    }
    if (wait.kind === "turn" || this.#availability.isAway)
      await this.#until((end) => this.#availability.onTurn(end));
  }

  #until(begin: (end: () => void) => () => void): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = begin(resolve);
      this.#endPause = () => {
        cancel();
        resolve();
      };
    });
  }

  /** Ends the current wait; there are no others. */
  stop(): void {
    this.#isStopped = true;
    this.#endPause?.();
  }
}
