/** The kernel's counts for an endpoint since its elements were added. */
export interface EndpointCounts {
  /** New connections. */
  readonly attempts: number;
  readonly answers: number;
  /** Resets before an answer. */
  readonly resets: number;
}

/** The known state of an endpoint between two readings. */
export interface Observation {
  readonly last: EndpointCounts;
  /** The counts when it was last known to answer, or first read. */
  readonly base: EndpointCounts;
}

/**
 * Compares a reading of an endpoint with the one before. One answer clears the endpoint of all connections
 * until then, because the counters do not tell which of them it answered.
 * @param known undefined for the first reading, which does not show how long ago connections were opened
 */
export function observe(known: Observation | undefined, counts: EndpointCounts): Observation {
  // Counts only decrease if the element was recreated.
  const isNew = known === undefined || counts.attempts < known.last.attempts;
  if (isNew || counts.answers !== known.last.answers) return { last: counts, base: counts };
  return { last: counts, base: known.base };
}

const NONE: EndpointCounts = { attempts: 0, answers: 0, resets: 0 };

/** Adds the counts between two readings of an endpoint to a sum. */
export function countsSince(last: EndpointCounts, now: EndpointCounts, sum = NONE): EndpointCounts {
  const added = (of: keyof EndpointCounts) => sum[of] + Math.max(0, now[of] - last[of]);
  return { attempts: added("attempts"), answers: added("answers"), resets: added("resets") };
}

/** Records that an endpoint answered a connection that the kernel does not count. */
export function answered({ last }: Observation): Observation {
  return { last, base: last };
}

/**
 * The new connections since the last answer, and how many of them were refused; 0 if an earlier process
 * counted them.
 */
export function unanswered({ last, base }: Observation) {
  return { attempts: last.attempts - base.attempts, resets: Math.max(0, last.resets - base.resets) };
}

/**
 * Formats the results of connections: `refused 5 of 5 new connections`, `answered none of 4 new connections`.
 */
export function unansweredText({ attempts, resets }: ReturnType<typeof unanswered>): string {
  const refused = Math.min(attempts, resets);
  const of = `${attempts} new connections`;
  return refused === 0 ? `answered none of ${of}` : `refused ${refused} of ${of}`;
}
