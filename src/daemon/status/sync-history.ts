import { messageOf } from "../../base/errors.ts";
import { driftSummary } from "../../sync/drift-summary.ts";
import type { FullSyncReason, SyncFailure, SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";

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
  #lastSyncedAt: number | undefined;
  #problem: string | undefined;
  #verifiedAt: number | undefined;

  synced(report: SyncReport): void {
    this.#syncs++;
    this.#lastSyncedAt = report.endedAt;
    this.#problem = undefined;
    if (report.kind !== "full") return;
    const { startedAt, endedAt, reason } = report;
    const repaired = driftSummary(report)?.text;
    this.#fullSync = { at: endedAt, reason, durationMs: endedAt - startedAt, repaired };
    if (repaired === undefined) return;
    this.#repair = this.#fullSync;
    this.#repairs++;
  }

  failed({ error }: Pick<SyncFailure, "error">): void {
    this.#failures++;
    this.#problem = messageOf(error);
  }

  /** The kernel's tables were compared with the desired state, element by element, without a difference. */
  verified(at: number): void {
    this.#verifiedAt = at;
  }

  /** The history up to now. */
  snapshot(): SyncHistorySnapshot {
    return {
      syncs: this.#syncs,
      failures: this.#failures,
      repairs: this.#repairs,
      fullSync: this.#fullSync,
      repair: this.#repair,
      lastSyncedAt: this.#lastSyncedAt,
      verifiedAt: this.#verifiedAt,
      problem: this.#problem,
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
  /** When the kernel was last brought up to date, milliseconds since 1970. */
  readonly lastSyncedAt: number | undefined;
  /** When the tables were last compared with the desired state, element by element, milliseconds since 1970. */
  readonly verifiedAt: number | undefined;
  /** Why the last sync failed; undefined after a success. */
  readonly problem: string | undefined;
}

/** The reason of a full sync in words, to follow "full sync". */
export function fullSyncReasonText(reason: FullSyncReason | undefined): string {
  return reason === undefined ? "" : REASON_TEXTS[reason];
}

const REASON_TEXTS: Readonly<Record<FullSyncReason, string>> = {
  start: "at start",
  periodic: "by period",
  failure: "after a failed sync",
  drift: "after drift",
  configuration: "after a change of the configuration",
};
