/** Whether a node's nft-proxy works, the worst state first. */
export const FLEET_STATES = [
  "no-pod",
  "unreachable",
  "unhealthy",
  "degraded",
  "out-of-sync",
  "quarantine",
  "unverified",
  "healthy",
] as const;

/** The state of one node's nft-proxy; stable words for scripts. */
export type FleetState = (typeof FLEET_STATES)[number];

/** One node's nft-proxy, as it reports itself. Seconds are relative to the node's own clock. */
export interface FleetNode {
  readonly node: string;
  /** "" without one. */
  readonly pod: string;
  readonly state: FleetState;
  /** Why it is not healthy; absent when it is. */
  readonly reason?: string;
  /** Seconds since the kernel was last compared with the desired state, element by element; absent before. */
  readonly verifiedAgo?: number;
  /** Seconds for which the kernel has lacked a change, 0 while it is up to date; absent where it does not answer. */
  readonly outOfSyncFor?: number;
  /** Service ports without rules, as the kernel refuses them; absent where it does not answer. */
  readonly quarantined?: number;
  /** The rest is from its metrics; absent when the metrics address is out of reach. */
  readonly metrics?: FleetMetrics;
}

/** What the metrics of a node tell. */
export interface FleetMetrics {
  readonly version: string;
  /** Repairs of what others changed, since the start. */
  readonly driftRepairs: number;
  /** Packets of new connections that the rules refused or dropped, since the start. */
  readonly refused: number;
  /** Seconds from a change to its rules in the kernel that 99 % stay below; absent without a change, or beside the next. */
  readonly lagP99?: number;
  /** Seconds that more than 1 % of the changes took longer than: more than is measured. */
  readonly lagP99Above?: number;
}

/** Sorts the worst first, then by name. */
export function compareNodes(a: FleetNode, b: FleetNode): number {
  const rank = FLEET_STATES.indexOf(a.state) - FLEET_STATES.indexOf(b.state);
  if (rank !== 0) return rank;
  const drift = (b.metrics?.driftRepairs ?? 0) - (a.metrics?.driftRepairs ?? 0);
  if (drift !== 0) return drift;
  const refused = (b.metrics?.refused ?? 0) - (a.metrics?.refused ?? 0);
  if (refused !== 0) return refused;
  return a.node < b.node ? -1 : 1;
}
