/** The ways of choosing an endpoint for a new connection. */
export const SCHEDULERS = ["random", "round-robin", "source-hash", "flow-hash"] as const;

/** A way of choosing an endpoint for a new connection. */
export type Scheduler = (typeof SCHEDULERS)[number];

/** The annotation of a Service that names its scheduler. */
export const SCHEDULER_ANNOTATION = "nft-proxy.io/scheduler";

/** The annotation of an EndpointSlice with the weight of its endpoints. */
export const WEIGHT_ANNOTATION = "nft-proxy.io/weight";

/** The default weight of endpoints. */
export const DEFAULT_WEIGHT = 1;

/** The maximum weight. */
export const MOST_WEIGHT = 100;

/** Reads the name of a scheduler; undefined for any other text. */
export function parseScheduler(text: string): Scheduler | undefined {
  return SCHEDULERS.find((scheduler) => scheduler === text);
}
