import type { Clock, Timer } from "../../base/clock.ts";
import { ApiFailure } from "./api-failure.ts";

/**
 * Aborts a request that takes too long, or from which nothing is received. Its `signal` is passed to the
 * request.
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

  /** Aborts the request `milliseconds` from now. */
  endsWithin(milliseconds: number): void {
    this.#total?.cancel();
    this.#total = this.#after(milliseconds, `not finished after ${milliseconds} ms`);
  }

  /**
   * Aborts the request unless this is called again within `milliseconds`. Call it whenever data is received.
   */
  receivesWithin(milliseconds: number): void {
    this.#quiet?.cancel();
    this.#quiet = this.#after(milliseconds, `nothing received for ${milliseconds} ms`);
  }

  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** Cancels the timers and aborts the rest of the request. */
  close(): void {
    this.#total?.cancel();
    this.#quiet?.cancel();
    this.#controller.abort(new ApiFailure("connection", "the request was closed"));
  }

  /**
   * Returns the reason of the abort if there was one, or else `error`: a stream does not report that reason
   * itself.
   */
  explain(error: unknown): unknown {
    return this.signal.aborted ? this.signal.reason : error;
  }

  #after(milliseconds: number, message: string): Timer {
    return this.#clock.after(milliseconds, () => this.abort(new ApiFailure("timeout", message)));
  }
}
