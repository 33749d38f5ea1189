/** How long to wait between attempts, in milliseconds. */
export interface BackoffLimits {
  /** The first attempt's longest wait; doubled for each further failure. */
  readonly base: number;
  /** No wait is longer than this, unless the server asks for more. */
  readonly cap: number;
  /** A server's Retry-After is believed up to this. */
  readonly retryAfterCap: number;
}

/** What client-go's reflector uses: 800 ms to 30 s. */
export const DEFAULT_BACKOFF: BackoffLimits = { base: 800, cap: 30_000, retryAfterCap: 300_000 };

/**
 * Exponential back-off with full jitter, so that the proxies of a thousand nodes do not come back to a restarted API
 * server in step. It never gives up. Source: "Exponential Backoff And Jitter", AWS Architecture Blog.
 */
export class Backoff {
  #failures = 0;
  readonly #limits: BackoffLimits;
  readonly #random: () => number;

  /** `random` gives numbers in [0, 1). */
  constructor(random: () => number, limits: BackoffLimits = DEFAULT_BACKOFF) {
    this.#random = random;
    this.#limits = limits;
  }

  /**
   * Milliseconds to wait after one more failure. `retryAfter` (milliseconds; 0 for none) comes before the jitter and does
   * not replace it: an overloaded API server tells all its clients the same second, again and again.
   */
  next(retryAfter = 0): number {
    const { base, cap, retryAfterCap } = this.#limits;
    const ceiling = Math.min(cap, base * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    return Math.min(retryAfter, retryAfterCap) + this.#random() * ceiling;
  }

  /** To be called when things work again. */
  reset(): void {
    this.#failures = 0;
  }
}
