import type { Clock } from "../../base/clock.ts";
import type { ApiFailure } from "../client/api-failure.ts";
import type { Availability } from "./availability.ts";

/**
 * Longest wait after the first answered failure, doubled for each further one, and longest wait of all,
 * unless the server's Retry-After is longer: those of client-go's reflector. Milliseconds.
 */
const FIRST_WAIT = 800;
const LONGEST_WAIT = 30_000;

/** Longest Retry-After that is honoured, milliseconds. */
const LONGEST_RETRY_AFTER = 300_000;

/**
 * The milliseconds that a reflector waits before its next attempt; "turn" if the server does not answer: it
 * waits for its turn, or for an answer to another reflector.
 */
export type Wait = number | "turn";

/**
 * Paces the attempts of one reflector. After answered failures it waits with exponential back-off and full
 * jitter, and never gives up. Source:
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export class RetryPacing {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #availability: Availability;
  #failures = 0;
  /**
   * False after a 410 until a watch succeeds: a server that answers 410 repeatedly is an ordinary failure.
   */
  #isFirstExpiry = true;
  /** True after a successful watch ended, until the next answer. */
  #isWatchLast = false;
  #isStopped = false;
  /** Ends the current wait. */
  #endPause: (() => void) | undefined;

  /**
   * @param random returns numbers in [0, 1)
   * @param availability shared by the reflectors of one API server
   */
  constructor(clock: Clock, random: () => number, availability: Availability) {
    this.#clock = clock;
    this.#random = random;
    this.#availability = availability;
  }

  /** Records an answer of the API server. */
  answered(): void {
    this.#isWatchLast = false;
    this.#availability.answered();
  }

  /** Resets to the shortest waits after a successful watch. */
  reset(): void {
    this.#failures = 0;
    this.#isFirstExpiry = true;
    this.#isWatchLast = true;
  }

  /**
   * @param newsCame true if the watch reported a change before the server closed it: the wait is then the
   * shortest
   */
  afterShortWatch(newsCame: boolean): number {
    if (newsCame) this.#failures = 0;
    return this.#backOff(0);
  }

  /**
   * Chooses the wait after a failure.
   * @param wasAnswered true if the server had begun to answer
   */
  afterFailure(failure: ApiFailure, wasAnswered: boolean): Wait {
    if (!wasAnswered) return "turn";
    if (failure.kind !== "gone" || !this.#isFirstExpiry) return this.#backOff(failure.retryAfter);
    this.#isFirstExpiry = false;
    return this.#availability.untilList(this.#isWatchLast);
  }

  /**
   * @param retryAfter milliseconds of the server's Retry-After. All its clients get the same: jitter is added
   * to it.
   */
  #backOff(retryAfter: number): number {
    const ceiling = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    return Math.min(retryAfter, LONGEST_RETRY_AFTER) + this.#random() * ceiling;
  }

  /** Waits, during an outage for this reflector's turn. {@link RetryPacing.stop} ends the wait. */
  async pause(wait: Wait): Promise<void> {
    if (wait !== "turn" && wait > 0) {
      await this.#until((end) => {
        const timer = this.#clock.after(wait, end);
        return () => timer.cancel();
      });
    }
    if (wait === "turn" || this.#availability.isUnavailable)
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

  /** Ends the current wait. There are no further waits. */
  stop(): void {
    this.#isStopped = true;
    this.#endPause?.();
  }
}
