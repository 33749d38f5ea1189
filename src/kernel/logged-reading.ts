import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { FailureLog } from "../base/failure-log.ts";
import { NftStoppedError } from "./nft-errors.ts";

/**
 * Reads from the kernel, and logs a failure or the end of failures. A reading that fails because this process
 * stops does not count as a failure. Never rejects.
 */
export async function loggedReading(
  failures: Pick<FailureLog, "add" | "end">,
  read: () => Promise<unknown>,
): Promise<void> {
  try {
    await read();
    failures.end();
  } catch (error) {
    if (!(error instanceof NftStoppedError)) failures.add(messageOf(error));
  }
}

/** Minimum ratio of the age to the time of a reading, so that it takes at most a twentieth of a processor. */
const AGE_IN_LENGTHS = 20;

/**
 * Caches an expensive reading. Concurrent calls share one.
 * @param first the result until a reading has succeeded
 * @param read if it rejects, the last result stays
 * @param maxAge minimum time between readings, milliseconds; calls in between get the last result
 * @returns a function that returns the last result; never rejects
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
  let current: Promise<T> | undefined;
  const refresh = async () => {
    const startedAt = clock.monotonic();
    await loggedReading(failures, async () => {
      last = await read();
    });
    // A failed reading counts, too, so that scrapes do not repeat it immediately.
    const endedAt = clock.monotonic();
    validUntil = endedAt + Math.max(maxAge, AGE_IN_LENGTHS * (endedAt - startedAt));
    current = undefined;
    return last;
  };
  return () => {
    if (current !== undefined) return current;
    if (clock.monotonic() < validUntil) return Promise.resolve(last);
    current = refresh();
    return current;
  };
}
