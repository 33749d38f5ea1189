import { type BackoffLimits, DEFAULT_BACKOFF } from "./backoff.ts";

/** Times of a reflector, in milliseconds unless noted. */
export interface ReflectorTimings {
  /** Time without data after which a list, or an unanswered watch, counts as hung. API servers time out after 60 s. */
  readonly answerSilence: number;
  /** Time without data after which a watch counts as dead. API servers send a bookmark about every minute. */
  readonly watchSilence: number;
  /** The watch's `timeoutSeconds` is drawn between these two, so that watches do not end in step. Seconds. */
  readonly watchSeconds: readonly [number, number];
  /** How long after `timeoutSeconds` the reflector closes a watch that the server did not. */
  readonly watchGrace: number;
  /** A watch that was open for this long succeeded: there is no back-off after it. */
  readonly stableAfter: number;
  /** The period of the checks whether a resource that is not served has become available. */
  readonly absentRecheck: number;
  readonly backoff: BackoffLimits;
}

/** The timings of the daemon. */
export const DEFAULT_TIMINGS: ReflectorTimings = {
  answerSilence: 60_000,
  watchSilence: 180_000,
  watchSeconds: [300, 600],
  watchGrace: 30_000,
  stableAfter: 5_000,
  absentRecheck: 600_000,
  backoff: DEFAULT_BACKOFF,
};
