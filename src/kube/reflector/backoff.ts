/** Limits of the waits between attempts, in milliseconds. */
export interface BackoffLimits {
  /** The longest wait after the first failure; doubled for each further one. */
  readonly base: number;
  /** The longest wait, unless the server's Retry-After asks for more. */
  readonly cap: number;
  /** The longest wait while there is no connection: attempts do not load a server that is away. */
  readonly unreachableCap: number;
  /** The longest Retry-After that is honoured. */
  readonly retryAfterCap: number;
}

/** The limits of client-go's reflector, 800 ms to 30 s; but a server that is back is noticed within 1.5 s. */
export const DEFAULT_BACKOFF: BackoffLimits = { base: 800, cap: 30_000, unreachableCap: 1_500, retryAfterCap: 300_000 };

/**
 * Exponential back-off with full jitter, so that the proxies of a thousand nodes do not return to a restarted API server
 * in step. It never gives up. Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export class Backoff {
  #failures = 0;
  readonly #limits: BackoffLimits;
  readonly #random: () => number;

  /** @param random returns numbers in [0, 1) */
  constructor(random: () => number, limits: BackoffLimits = DEFAULT_BACKOFF) {
    this.#random = random;
    this.#limits = limits;
  }

  /**
   * Returns the milliseconds to wait after one more failure.
   * @param retryAfter milliseconds that the server asked for, 0 for none. The jitter is added to it: an overloaded API
   * server asks all its clients for the same wait.
   */
  next(retryAfter = 0): number {
    const { base, cap, retryAfterCap } = this.#limits;
    const ceiling = Math.min(cap, base * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    return Math.min(retryAfter, retryAfterCap) + this.#random() * ceiling;
  }

  /** Returns the milliseconds to wait after one more attempt without a connection. Does not count as a failure. */
  nextUnreachable(): number {
    return this.#random() * this.#limits.unreachableCap;
  }

  /** Starts over with the shortest wait. To be called after a success. */
  reset(): void {
    this.#failures = 0;
  }
}
