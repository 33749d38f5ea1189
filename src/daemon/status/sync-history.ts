import { messageOf } from "../../base/errors.ts";
import type { FullSyncReason, SyncFailure, SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { HealthTracker } from "../health/health.ts";

/** A full sync or a repair: its end, its reason, its duration, and what it repaired. Milliseconds. */
export interface FullSyncRecord {
  readonly at: number;
  readonly reason: FullSyncReason | undefined;
  readonly durationMs: number;
  /** The drift as text; undefined if there was none. */
  readonly repaired: string | undefined;
}

/** All syncs since the start. Times are milliseconds since 1970. */
export interface SyncHistorySnapshot {
  readonly syncs: number;
  readonly failures: number;
  readonly repairs: number;
  readonly fullSync?: FullSyncRecord;
  /** The last sync that repaired something. */
  readonly repair?: FullSyncRecord;
  /** When the kernel was last brought up to date. */
  readonly lastSyncedAt?: number | undefined;
  /** When the kernel was last known to have the desired tables. */
  readonly verifiedAt?: number | undefined;
  /** Why the last sync failed; absent after a success. */
  readonly problem?: string | undefined;
  /** The families without rules, as of the last sync that succeeded. */
  readonly excludedFamilies: SyncReport["excludedFamilies"];
}

/** Keeps the last syncs and counts all of them, for the status page. */
export class SyncHistory implements SyncSubscriber {
  #snapshot: SyncHistorySnapshot = { syncs: 0, failures: 0, repairs: 0, excludedFamilies: new Map() };

  synced(report: SyncReport): void {
    const { endedAt: lastSyncedAt, durationMs, reason, kind, excludedFamilies } = report;
    const { syncs, repairs } = this.#snapshot;
    const known = { lastSyncedAt, problem: undefined, excludedFamilies };
    this.#snapshot = { ...this.#snapshot, syncs: syncs + 1, ...known };
    const repaired = report.repaired?.text;
    const record = { at: lastSyncedAt, reason, durationMs, repaired };
    if (kind === "full") this.#snapshot = { ...this.#snapshot, fullSync: record };
    if (repaired !== undefined) this.#snapshot = { ...this.#snapshot, repair: record, repairs: repairs + 1 };
  }

  failed({ error }: Pick<SyncFailure, "error">): void {
    this.#snapshot = { ...this.#snapshot, failures: this.#snapshot.failures + 1, problem: messageOf(error) };
  }

  /** Records that the kernel has the desired tables. */
  verified(at: number): void {
    this.#snapshot = { ...this.#snapshot, verifiedAt: at };
  }

  snapshot(): SyncHistorySnapshot {
    return this.#snapshot;
  }
}

/** A full sync with its reason, in words. */
export function fullSyncText(reason: FullSyncReason | undefined): string {
  return reason === undefined ? "full sync" : FULL_SYNC_TEXTS[reason];
}

const FULL_SYNC_TEXTS: Readonly<Record<FullSyncReason, string>> = {
  start: "full sync at start",
  periodic: "periodic full sync",
  failure: "full sync after a failed sync",
  drift: "full sync after drift",
  configuration: "full sync after a change of the configuration",
};

/** Number of remembered minutes. */
const TIMELINE_MINUTES = 60;

const MINUTE = 60_000;

/** One minute. */
export interface TimelineMinute {
  readonly syncs: number;
  /** Time in which the rules were out of date, milliseconds. */
  readonly outOfSyncMs: number;
}

const IDLE: TimelineMinute = { syncs: 0, outOfSyncMs: 0 };

/**
 * Counts syncs and the time out of sync, minute by minute, for the last hour. Times are milliseconds since
 * 1970.
 */
export class SyncTimeline implements SyncSubscriber {
  readonly #health: Pick<HealthTracker, "pendingSince">;
  /** By minute since 1970. */
  readonly #buckets = new Map<number, TimelineMinute>();
  /** End of the counted time out of sync. */
  #countedUntil = 0;

  /** @param health knows since when the rules have been out of date; must subscribe to syncs after this */
  constructor(health: Pick<HealthTracker, "pendingSince">) {
    this.#health = health;
  }

  synced({ startedAt, endedAt }: Pick<SyncReport, "startedAt" | "endedAt">): void {
    this.#countOutOfSync(this.#health.pendingSince ?? startedAt, endedAt);
    this.#count(minuteOf(endedAt), { syncs: 1, outOfSyncMs: 0 });
  }

  /** Returns the last 60 minutes, oldest first. The last one is the current, incomplete minute. */
  minutes(now: number): readonly TimelineMinute[] {
    const since = this.#health.pendingSince;
    if (since !== undefined) this.#countOutOfSync(since, now);
    const first = minuteOf(now) - TIMELINE_MINUTES + 1;
    return Array.from({ length: TIMELINE_MINUTES }, (_, i) => this.#buckets.get(first + i) ?? IDLE);
  }

  #countOutOfSync(from: number, to: number): void {
    const oldest = (minuteOf(to) - TIMELINE_MINUTES + 1) * MINUTE;
    let start = Math.max(from, this.#countedUntil, oldest);
    this.#countedUntil = Math.max(this.#countedUntil, to);
    while (start < to) {
      const end = Math.min(to, (minuteOf(start) + 1) * MINUTE);
      this.#count(minuteOf(start), { syncs: 0, outOfSyncMs: end - start });
      start = end;
    }
  }

  #count(minute: number, more: TimelineMinute): void {
    const { syncs, outOfSyncMs } = this.#buckets.get(minute) ?? IDLE;
    this.#buckets.set(minute, { syncs: syncs + more.syncs, outOfSyncMs: outOfSyncMs + more.outOfSyncMs });
    for (const old of this.#buckets.keys()) if (old <= minute - TIMELINE_MINUTES) this.#buckets.delete(old);
  }
}

function minuteOf(at: number): number {
  return Math.floor(at / MINUTE);
}
