import { driftSummary } from "../../sync/drift-summary.ts";
import type { FullSyncReason, SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";

/** A full sync: when it ended, its reason, its duration, and what it repaired. Milliseconds. */
export interface FullSyncRecord {
  readonly at: number;
  readonly reason: FullSyncReason | undefined;
  readonly durationMs: number;
  /** The drift in words; undefined when there was none. */
  readonly repaired: string | undefined;
}

/** Keeps the last syncs and their number, for the status page. */
export class SyncHistory implements SyncSubscriber {
  #fullSync: FullSyncRecord | undefined;
  #repair: FullSyncRecord | undefined;
  #syncs = 0;
  #repairs = 0;
  #failures = 0;

  synced(report: SyncReport): void {
    this.#syncs++;
    if (report.kind !== "full") return;
    const { startedAt, endedAt, reason } = report;
    const repaired = driftSummary(report)?.text;
    this.#fullSync = { at: endedAt, reason, durationMs: endedAt - startedAt, repaired };
    if (repaired === undefined) return;
    this.#repair = this.#fullSync;
    this.#repairs++;
  }

  failed(): void {
    this.#failures++;
  }

  /** The history up to now. */
  snapshot(): SyncHistorySnapshot {
    return {
      syncs: this.#syncs,
      failures: this.#failures,
      repairs: this.#repairs,
      fullSync: this.#fullSync,
      repair: this.#repair,
    };
  }
}

/** Counts are since the start. */
export interface SyncHistorySnapshot {
  readonly syncs: number;
  readonly failures: number;
  readonly repairs: number;
  readonly fullSync: FullSyncRecord | undefined;
  /** The last full sync that repaired something. */
  readonly repair: FullSyncRecord | undefined;
}
