import type { Clock, Timer } from "../../base/clock.ts";
import { ApiFailure } from "./api-failure.ts";

/**
 * Ends a request that takes too long, falls silent, or is no longer wanted. Its `signal` goes into the request.
 */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  #total: Timer | undefined;
  #quiet: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The request may last `milliseconds` from now, and no longer. */
  endsWithin(milliseconds: number): void {
    this.#total?.cancel();
    this.#total = this.#after(milliseconds, `not over after ${milliseconds} ms`);
  }

  /** Something must be heard within `milliseconds`; to be called again whenever something was. */
  heardWithin(milliseconds: number): void {
    this.#quiet?.cancel();
    this.#quiet = this.#after(milliseconds, `nothing heard for ${milliseconds} ms`);
  }

  /** Ends the request at once. */
  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** Stops all timers, and ends what is left of the request. */
  close(): void {
    this.#total?.cancel();
    this.#quiet?.cancel();
    this.#controller.abort(new ApiFailure("connection", "the request is over"));
  }

  /** What ended it, or else `error`: an aborted stream says only that it was aborted. */
  explain(error: unknown): unknown {
    return this.signal.aborted ? this.signal.reason : error;
  }

  #after(milliseconds: number, message: string): Timer {
    return this.#clock.after(milliseconds, () => this.abort(new ApiFailure("timeout", message)));
  }
}
