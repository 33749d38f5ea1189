import type { Clock } from "./clock.ts";

/** How often something may happen. */
export interface TokenLimits {
  /** So many at once, of each namespace. */
  readonly burst: number;
  /** How long until there may be one more, milliseconds. */
  readonly refillMs: number;
}

/** So many namespaces have tokens of their own at a time: all others share some. A full bucket needs no memory. */
const MOST_NAMESPACES = 100;

/** The name of the tokens that are shared: no namespace has it. */
const OTHERS = "*";

interface Bucket {
  tokens: number;
  refilledAt: number;
}

/** Limits something for each namespace by itself, so that none takes the place of another. */
export class NamespaceTokens {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #limits: TokenLimits;
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Pick<Clock, "monotonic">, limits: TokenLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Takes a token of a namespace. @returns how many are left; undefined where there was none */
  take(namespace: string): number | undefined {
    const bucket = this.#bucketOf(namespace);
    this.#refill(bucket);
    if (bucket.tokens === 0) return undefined;
    bucket.tokens -= 1;
    return bucket.tokens;
  }

  #bucketOf(namespace: string): Bucket {
    const known = this.#buckets.get(namespace);
    if (known !== undefined) return known;
    if (this.#buckets.size >= MOST_NAMESPACES) this.#dropFull();
    if (this.#buckets.size >= MOST_NAMESPACES && namespace !== OTHERS) return this.#bucketOf(OTHERS);
    const bucket = { tokens: this.#limits.burst, refilledAt: this.#clock.monotonic() };
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
