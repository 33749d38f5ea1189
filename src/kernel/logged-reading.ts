import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import { NftStoppedError } from "./nft-errors.ts";

/**
 * Reads from the kernel or changes it, and logs a failure or the end of failures. What fails because this
 * process stops is no failure. Never rejects.
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
 * @param read must not reject
 * @param maxAge minimum time between readings, milliseconds; calls in between get the last result
 * @param first a result of just now; absent for none
 */
export function cached<T>(
  read: () => Promise<T>,
  maxAge: number,
  clock: Pick<Clock, "monotonic">,
  first?: T,
): () => Promise<T> {
  let last: { readonly result: T; readonly validUntil: number } | undefined;
  if (first !== undefined) last = { result: first, validUntil: clock.monotonic() + maxAge };
  let current: Promise<T> | undefined;
  const refresh = async () => {
    const startedAt = clock.monotonic();
    const result = await read();
    const endedAt = clock.monotonic();
    last = { result, validUntil: endedAt + Math.max(maxAge, AGE_IN_LENGTHS * (endedAt - startedAt)) };
    current = undefined;
    return result;
  };
  return () => {
    if (current !== undefined) return current;
    if (last !== undefined && clock.monotonic() < last.validUntil) return Promise.resolve(last.result);
    current = refresh();
    return current;
  };
}

/** Minimum time between readings of counters. Milliseconds. */
const COUNTERS_MAX_AGE = 5000;

/**
 * {@link cached}, for counters whose reading may fail: the last result then stays. A failed reading counts,
 * too, so that scrapes do not repeat it immediately.
 * @param what for the log: "the connection counters"
 * @param first the result until a reading has succeeded
 */
export function cachedCounters<T>(
  parts: { readonly logger: Logger; readonly clock: Clock },
  what: string,
  first: T,
  read: () => Promise<T>,
): () => Promise<T> {
  const failures = new FailureLog(parts, `read ${what}`);
  let last = first;
  const readOnce = async () => {
    await loggedReading(failures, async () => {
      last = await read();
    });
    return last;
  };
  return cached(readOnce, COUNTERS_MAX_AGE, parts.clock);
}
