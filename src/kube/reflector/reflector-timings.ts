import { type BackoffLimits, DEFAULT_BACKOFF } from "./backoff.ts";

/** Times of a reflector, milliseconds except where said. */
export interface ReflectorTimings {
  /** Silence after which a list, or a watch that has not been answered, counts as hung. API servers give up at 60 s. */
  readonly answerSilence: number;
  /** Silence after which a watch counts as dead. API servers send a bookmark about each minute. */
  readonly watchSilence: number;
  /** The watch's `timeoutSeconds` is drawn between these two, so that watches do not end in step. Seconds. */
  readonly watchSeconds: readonly [number, number];
  /** How long after `timeoutSeconds` we end a watch ourselves. */
  readonly watchGrace: number;
  /** A watch that lasted this long was a good one: no back-off after it. */
  readonly stableAfter: number;
  /** How often to look again for a resource that is not served here. */
  readonly absentRecheck: number;
  readonly backoff: BackoffLimits;
}

/** What the daemon runs with. */
export const DEFAULT_TIMINGS: ReflectorTimings = {
  answerSilence: 60_000,
  watchSilence: 180_000,
  watchSeconds: [300, 600],
  watchGrace: 30_000,
  stableAfter: 5_000,
  absentRecheck: 600_000,
  backoff: DEFAULT_BACKOFF,
};
