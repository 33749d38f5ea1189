import type { Clock } from "../../base/clock.ts";
import { type ApiFailure, isUnreachable } from "../client/api-failure.ts";
import type { Availability } from "./availability.ts";
import { Backoff } from "./backoff.ts";
import type { ReflectorTimings } from "./reflector-timings.ts";

/** Parts of a {@link RetryPacing}. */
export interface RetryPacingParts {
  readonly clock: Clock;
  /** Returns numbers in [0, 1). */
  readonly random: () => number;
  readonly timings: Pick<ReflectorTimings, "backoff">;
  /** Shared by the reflectors of one API server. */
  readonly availability: Availability;
}

/** Decides how long a reflector waits between its attempts, and waits. */
export class RetryPacing {
  readonly #parts: RetryPacingParts;
  readonly #backoff: Backoff;
  /** The last attempt failed without an answer: the next answer to anyone ends the wait. */
  #isDisconnected = false;
  /** False after a 410 until a watch succeeds: a server that answers 410 again and again is not asked at once. */
  #mayRelistAtOnce = true;
  #isStopped = false;
  /** Ends the current wait. */
  #endPause: (() => void) | undefined;

  constructor(parts: RetryPacingParts) {
    this.#parts = parts;
    this.#backoff = new Backoff(parts.random, parts.timings.backoff);
  }

  /** Notes an answer of the API server. */
  answered(): void {
    this.#isDisconnected = false;
    this.#parts.availability.answered();
  }

  /** Starts over with the shortest waits, after a watch that went well. */
  reset(): void {
    this.#backoff.reset();
    this.#mayRelistAtOnce = true;
  }

  /**
   * The wait after a watch that was closed at once, milliseconds.
   * @param newsCame it had reported something new: then the wait is the shortest
   */
  afterShortWatch(newsCame: boolean): number {
    if (newsCame) this.#backoff.reset();
    return this.#backoff.next();
  }

  /** The wait after a failure, milliseconds. */
  afterFailure(failure: ApiFailure): number {
    this.#isDisconnected = failure.kind === "connection" || failure.kind === "timeout";
    if (isUnreachable(failure)) return this.#backoff.nextUnreachable();
    if (!this.#isDisconnected) this.answered();
    if (failure.kind !== "gone" || !this.#mayRelistAtOnce) return this.#backoff.next(failure.retryAfter);
    this.#mayRelistAtOnce = false;
    return 0;
  }

  /** Waits, less if the API server answers somebody meanwhile or {@link RetryPacing.stop} is called. */
  pause(milliseconds: number): Promise<void> {
    if (milliseconds <= 0 || this.#isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        timer.cancel();
        cancelWakeUp?.();
        resolve();
      };
      const timer = this.#parts.clock.after(milliseconds, end);
      const cancelWakeUp = this.#isDisconnected ? this.#parts.availability.onAnswer(end) : undefined;
      this.#endPause = end;
    });
  }

  /** Ends the current wait; there are no others. */
  stop(): void {
    this.#isStopped = true;
    this.#endPause?.();
  }
}
