import { messageOf } from "../../base/errors.ts";
import type { FailureLog } from "../../base/failure-log.ts";
import { NftStoppedError } from "../../kernel/nft-errors.ts";

/** Something that is expensive to read. */
export interface CachedReadingOptions<T> {
  /** A rejection leaves the last reading in place. */
  readonly read: () => Promise<T>;
  /** A clock that never jumps, milliseconds. */
  readonly now: () => number;
  /** How long a reading is good for, milliseconds: whoever asks more often gets the last one. */
  readonly maxAge: number;
  readonly failures: Pick<FailureLog, "add" | "end">;
}

/** A reading is good for so many times its length, too: reading takes a twentieth of one processor at most. */
const AGE_IN_LENGTHS = 20;

/**
 * Reads when asked, at most once per `maxAge`, and once for those who ask at the same time.
 * @param first stands for a reading until one has succeeded
 * @returns gives the last reading; never rejects
 */
export function cachedReading<T>(first: T, { read, now, maxAge, failures }: CachedReadingOptions<T>): () => Promise<T> {
  let last = first;
  let validUntil = Number.NEGATIVE_INFINITY;
  let underWay: Promise<T> | undefined;
  const refresh = async () => {
    const startedAt = now();
    try {
      last = await read();
      failures.end();
    } catch (error) {
      if (!(error instanceof NftStoppedError)) failures.add(messageOf(error));
    }
    // A failed reading counts as one, so that scrapes do not repeat it while nft is in trouble.
    const endedAt = now();
    validUntil = endedAt + Math.max(maxAge, AGE_IN_LENGTHS * (endedAt - startedAt));
    underWay = undefined;
    return last;
  };
  return () => {
    if (underWay !== undefined) return underWay;
    if (now() < validUntil) return Promise.resolve(last);
    underWay = refresh();
    return underWay;
  };
}
