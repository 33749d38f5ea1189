import { durationWords } from "../base/duration.ts";
import type { Family } from "../base/family.ts";
import type { ServiceName } from "./ids.ts";

/** An endpoint that this node ejected from its lists. */
export interface EjectedEndpoint {
  readonly family: Family;
  /** `address . port` */
  readonly target: string;
  readonly services: readonly ServiceName[];
  /** Wall clock, milliseconds since 1970; the start of this process if an earlier one ejected it. */
  readonly at: number;
  /** Why: the predicate of a sentence about it. Absent if an earlier process ejected it. */
  readonly reason?: string;
}

/**
 * Formats an ejection: `ejected 4 s ago: refused 5 of 5 new connections`.
 * @param now as {@link EjectedEndpoint.at}
 */
export function ejectedText({ at, reason }: EjectedEndpoint, now: number): string {
  const ago = `${durationWords(Math.max(0, now - at))} ago`;
  return reason === undefined ? `ejected before the daemon started ${ago}` : `ejected ${ago}: ${reason}`;
}
