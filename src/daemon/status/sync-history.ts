import type { FullSyncReason } from "../../sync/reconciler.ts";

/** A full sync: when it ended, why it was, how long it took, and what others had changed. Milliseconds. */
export interface FullSyncRecord {
  readonly at: number;
  readonly reason: FullSyncReason | undefined;
  readonly durationMs: number;
  /** In words; undefined when the kernel was as we had left it. */
  readonly repaired: string | undefined;
}

/** What syncs there were, for people to look at: the last ones, and how many. */
export class SyncHistory {
  #fullSync: FullSyncRecord | undefined;
  #repair: FullSyncRecord | undefined;
  #syncs = 0;
  #repairs = 0;
  #failures = 0;

  /** A sync succeeded. */
  synced(): void {
    this.#syncs++;
  }

  /** A full sync succeeded. */
  fullySynced(record: FullSyncRecord): void {
    this.#fullSync = record;
    if (record.repaired === undefined) return;
    this.#repair = record;
    this.#repairs++;
  }

  /** A sync failed. */
  failed(): void {
    this.#failures++;
  }

  /** As things stand now. */
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
