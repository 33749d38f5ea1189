import { creation, type TableDelta } from "../../src/nft/delta.ts";
import type { RulesetState } from "../../src/ruleset/ruleset-state.ts";
import type { Quarantine } from "../../src/sync/quarantine-changes.ts";
import {
  syncReporter as reporter,
  type SyncFailure,
  type SyncOutcome,
  type SyncReport,
  type SyncTimes,
} from "../../src/sync/sync-report.ts";
import { renderAll, service, testNodeContext } from "./build.ts";

const { ip } = renderAll({ services: [service()] }).state.ruleset;
if (ip === undefined) throw new Error("no IPv4");

/** The delta of a table that was missing. */
export const MISSING_TABLE: TableDelta = creation(ip, "create");

/** The delta of a table that lost only its elements. */
export const LOST_ELEMENTS: TableDelta = {
  ...MISSING_TABLE,
  mode: "change",
  objects: [],
};

/** The input of {@link syncReport}. */
export interface ReportOptions extends Partial<SyncOutcome>, Partial<SyncTimes> {
  readonly state?: RulesetState;
  readonly quarantined?: Quarantine;
  readonly excludedFamilies?: SyncReport["excludedFamilies"];
}

/** Returns the report of a daemon's first sync. By default it succeeded in 250 ms and had nothing to do. */
export function syncReport(options: ReportOptions = {}): SyncReport {
  return syncReporter()(options);
}

/** Makes the reports of one daemon, as {@link syncReport}. Each has the news since the previous one. */
export function syncReporter(): (options?: ReportOptions) => SyncReport {
  const reportOf = reporter();
  return ({ startedAt = 1000, endedAt = 1250, startedMonotonic = 1000, ...options } = {}) => {
    const { state = renderAll({}).state, quarantined = new Map(), excludedFamilies = new Map() } = options;
    const none = { deltas: [], applied: [], drift: [], refused: [] };
    const outcome = {
      kind: "nothing",
      rendered: new Set<never>(),
      waiting: new Set<never>(),
      ...none,
    } as const;
    const { durationMs = endedAt - startedAt, triggerTimes = [], receivedAt = [] } = options;
    const { nodeContext = testNodeContext() } = options;
    return reportOf(
      { ...outcome, ...options },
      { state, quarantined, excludedFamilies },
      { startedAt, endedAt, startedMonotonic, durationMs, triggerTimes, receivedAt, nodeContext },
    );
  };
}

/** Returns the report of a failed sync that took 250 ms. */
export function syncFailure(error: unknown, isFull = false): SyncFailure {
  return { startedAt: 1000, endedAt: 1250, error, isFull };
}
