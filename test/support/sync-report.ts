import { creation, type TableDelta } from "../../src/nft/delta.ts";
import { driftSummary } from "../../src/sync/drift-summary.ts";
import { quarantineChanges } from "../../src/sync/quarantine-changes.ts";
import type { SyncFailure, SyncReport } from "../../src/sync/sync-report.ts";
import { renderAll, service, testNodeContext } from "./build.ts";

const { ip } = renderAll({ services: [service()] }).state.ruleset;
if (ip === undefined) throw new Error("no IPv4");

/** The delta of a table that was missing. */
export const MISSING_TABLE: TableDelta = creation(ip, "create");

/** The delta of a table that lost its elements and nothing else. */
export const LOST_ELEMENTS: TableDelta = {
  ...MISSING_TABLE,
  mode: "change",
  addedSets: [],
  writtenChains: [],
};

/** A successful sync that had nothing to do and took 250 ms, unless told otherwise; the first of its daemon. */
export function syncReport(options: Partial<SyncReport> = {}): SyncReport {
  return syncReports()(options);
}

/** Makes the reports of one daemon, as {@link syncReport}: each tells what is new since the one before. */
export function syncReports(): (options?: Partial<SyncReport>) => SyncReport {
  const changeOf = quarantineChanges();
  const featureChanges = { affinity: quarantineChanges(), ranges: quarantineChanges() };
  return (options = {}) => {
    const state = options.state ?? renderAll({}).state;
    const outcome = {
      kind: "nothing",
      rendered: new Set<never>(),
      waiting: new Set<never>(),
      deltas: [],
      applied: [],
      drift: [],
      refused: [],
      quarantined: new Map(),
      ...options,
    } as const;
    return {
      startedAt: 1000,
      endedAt: 1250,
      triggerTimes: [],
      receivedAt: [],
      nodeContext: testNodeContext(),
      excludedFamilies: new Map(),
      repaired: driftSummary(outcome),
      conflicts: state.takeConflictChanges(),
      quarantineChange: changeOf(outcome.quarantined, outcome.refused),
      featureChanges: {
        affinity: featureChanges.affinity(state.budgets.without("affinity")),
        ranges: featureChanges.ranges(state.budgets.without("ranges")),
      },
      durationMs: (options.endedAt ?? 1250) - (options.startedAt ?? 1000),
      ...outcome,
      state,
    };
  };
}

/** A failed sync that took 250 ms. */
export function syncFailure(error: unknown, isFull = false): SyncFailure {
  return { startedAt: 1000, endedAt: 1250, error, isFull };
}
