import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { FailureLog } from "../../base/failure-log.ts";
import { NftStoppedError } from "../../kernel/nft-errors.ts";

/** A reading is good for so many times its length, too: reading takes a twentieth of one processor at most. */
const AGE_IN_LENGTHS = 20;

/**
 * Reads something expensive when asked, at most once per `maxAge`, and once for those who ask at the same time.
 * @param first stands for a reading until one has succeeded
 * @param read a rejection leaves the last reading in place
 * @param maxAge how long a reading is good for, milliseconds: whoever asks more often gets the last one
 * @returns gives the last reading; never rejects
 */
export function cachedReading<T>(
  first: T,
  read: () => Promise<T>,
  maxAge: number,
  clock: Pick<Clock, "monotonic">,
  failures: Pick<FailureLog, "add" | "end">,
): () => Promise<T> {
  let last = first;
  let validUntil = Number.NEGATIVE_INFINITY;
  let underWay: Promise<T> | undefined;
  const refresh = async () => {
    const startedAt = clock.monotonic();
    try {
      last = await read();
      failures.end();
    } catch (error) {
      if (!(error instanceof NftStoppedError)) failures.add(messageOf(error));
    }
    // A failed reading counts as one, so that scrapes do not repeat it while nft is in trouble.
    const endedAt = clock.monotonic();
    validUntil = endedAt + Math.max(maxAge, AGE_IN_LENGTHS * (endedAt - startedAt));
    underWay = undefined;
    return last;
  };
  return () => {
    if (underWay !== undefined) return underWay;
    if (clock.monotonic() < validUntil) return Promise.resolve(last);
    underWay = refresh();
    return underWay;
  };
}
