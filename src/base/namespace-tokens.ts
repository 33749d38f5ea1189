import type { Clock } from "./clock.ts";

/** Rate limit of one namespace. */
export interface TokenLimits {
  /** Maximum burst. */
  readonly burst: number;
  /** Time until the next token, milliseconds. */
  readonly refillMs: number;
}

/**
 * Maximum number of namespaces with tokens of their own at a time; the others share one bucket. A full bucket
 * takes no memory.
 */
const MOST_NAMESPACES = 100;

/** Name of the shared bucket; no namespace has this name. */
const OTHERS = "*";

interface Bucket {
  tokens: number;
  refilledAt: number;
  /** Number of attempts without a token since the last one with a token. */
  missed: number;
}

/** Limits a rate for each namespace separately, so that no namespace uses up the share of another. */
export class NamespaceTokens {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #limits: TokenLimits;
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Pick<Clock, "monotonic">, limits: TokenLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /**
   * Takes a token of a namespace.
   * @returns how many tokens are left, and how many attempts failed since the last one that succeeded;
   * undefined if there is no token
   */
  take(namespace: string): { readonly left: number; readonly missed: number } | undefined {
    const bucket = this.#bucketOf(namespace);
    this.#refill(bucket);
    if (bucket.tokens === 0) {
      bucket.missed++;
      return undefined;
    }
    const { missed } = bucket;
    bucket.missed = 0;
    return { left: --bucket.tokens, missed };
  }

  #bucketOf(namespace: string): Bucket {
    const known = this.#buckets.get(namespace);
    if (known !== undefined) return known;
    if (this.#buckets.size >= MOST_NAMESPACES) this.#dropFull();
    if (this.#buckets.size >= MOST_NAMESPACES && namespace !== OTHERS) return this.#bucketOf(OTHERS);
    const bucket = { tokens: this.#limits.burst, refilledAt: this.#clock.monotonic(), missed: 0 };
    this.#buckets.set(namespace, bucket);
    return bucket;
  }

  #dropFull(): void {
    for (const [namespace, bucket] of this.#buckets) {
      this.#refill(bucket);
      if (bucket.tokens === this.#limits.burst) this.#buckets.delete(namespace);
    }
  }

  #refill(bucket: Bucket): void {
    const { burst, refillMs } = this.#limits;
    const refill = Math.floor((this.#clock.monotonic() - bucket.refilledAt) / refillMs);
    bucket.refilledAt += refill * refillMs;
    bucket.tokens = Math.min(burst, bucket.tokens + refill);
  }
}
