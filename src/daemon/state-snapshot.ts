import type { ObjectSource } from "../kube/source.ts";
import { rebuildTransaction, toTransaction } from "../nft/transaction.ts";
import type { Reconciler } from "../sync/reconciler.ts";
import type { HealthTracker } from "./health/health-tracker.ts";

/** What a snapshot is taken of. */
export interface SnapshotSources {
  readonly source: ObjectSource;
  readonly health: HealthTracker;
  readonly reconciler: Reconciler;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** The desired state, the committed state and the transaction between them, for support. */
export function stateSnapshot({ source, health, reconciler, now }: SnapshotSources): Record<string, unknown> {
  const { state, quarantined } = reconciler;
  return {
    at: new Date(now()).toISOString(),
    sources: source.states(),
    health: health.snapshot(),
    quarantined: Object.fromEntries(quarantined),
    conflicts: state.conflicts().map(({ frontend, winner, losers }) => {
      return { frontend, winner: winner.key, losers: losers.map(({ key }) => key) };
    }),
    pending: toTransaction(state.pending()),
    desired: rebuildTransaction(state.ruleset),
    committed: rebuildTransaction(state.committedRuleset()),
  };
}
