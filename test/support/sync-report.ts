import { creation, type TableDelta } from "../../src/nft/delta.ts";
import type { SyncFailure, SyncReport } from "../../src/sync/sync-report.ts";
import { renderAll, service, testNodeContext } from "./build.ts";

const { ip } = renderAll({ services: [service()] }).state.ruleset;
if (ip === undefined) throw new Error("no IPv4");

/** The delta of a table that was missing. */
export const MISSING_TABLE: TableDelta = creation(ip, "create");

/** The delta of a table that lost its elements and nothing else. */
export const LOST_ELEMENTS: TableDelta = { ...MISSING_TABLE, mode: "change", addedSets: [], writtenChains: [] };

/** A successful sync that had nothing to do and took 250 ms, unless told otherwise. */
export function syncReport(options: Partial<SyncReport> = {}): SyncReport {
  return {
    kind: "nothing",
    rendered: new Set(),
    deltas: [],
    applied: [],
    drift: [],
    refused: [],
    startedAt: 1000,
    endedAt: 1250,
    pendingSince: undefined,
    triggerTimes: [],
    receivedAt: [],
    nodeContext: testNodeContext(),
    state: renderAll({}).state,
    quarantined: new Map(),
    excludedFamilies: new Map(),
    ...options,
  };
}

/** A failed sync that took 250 ms. */
export function syncFailure(error: unknown, isFull = false): SyncFailure {
  return { startedAt: 1000, endedAt: 1250, error, isFull };
}
