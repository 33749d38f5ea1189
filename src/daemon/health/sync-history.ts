import { messageOf } from "../../base/errors.ts";
import type { FullSyncReason, SyncFailure, SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";

/** A full sync or a repair: its end, its reason, its duration, and what it repaired. Milliseconds. */
export interface FullSyncRecord {
  readonly at: number;
  readonly reason: FullSyncReason | undefined;
  readonly durationMs: number;
  /** The drift as text; undefined if there was none. */
  readonly repaired: string | undefined;
}

/** Keeps the last syncs and counts all of them. Times are milliseconds since 1970. */
export class SyncHistory implements SyncSubscriber {
  syncs = 0;
  failures = 0;
  repairs = 0;
  fullSync: FullSyncRecord | undefined;
  /** The last sync that repaired something. */
  repair: FullSyncRecord | undefined;
  /** When the kernel was last brought up to date. */
  lastSyncedAt: number | undefined;
  /** When the kernel was last known to have the desired tables. */
  verifiedAt: number | undefined;
  /** Why the last sync failed; undefined after a success. */
  problem: string | undefined;
  /** The families without rules, as of the last sync that succeeded. */
  excludedFamilies: SyncReport["excludedFamilies"] = new Map();

  synced({ endedAt, durationMs, reason, kind, excludedFamilies, repaired }: SyncReport): void {
    this.syncs++;
    this.lastSyncedAt = endedAt;
    this.problem = undefined;
    this.excludedFamilies = excludedFamilies;
    const record = { at: endedAt, reason, durationMs, repaired: repaired?.text };
    if (kind === "full") this.fullSync = record;
    if (repaired === undefined) return;
    this.repair = record;
    this.repairs++;
  }

  failed({ error }: Pick<SyncFailure, "error">): void {
    this.failures++;
    this.problem = messageOf(error);
  }

  /** Records that the kernel has the desired tables. */
  verified(at: number): void {
    this.verifiedAt = at;
  }
}

/** Number of remembered minutes. */
const TIMELINE_MINUTES = 60;

const MINUTE = 60_000;

/** One minute. */
export interface TimelineMinute {
  readonly syncs: number;
  /** Time in which the rules were out of date, milliseconds. */
  readonly outOfSyncMs: number;
}

/**
 * Counts syncs and the time out of sync, minute by minute, for the last hour. Times are milliseconds since
 * 1970.
 * @param health knows since when the rules have been out of date; must subscribe to syncs after this
 */
export function syncTimeline(health: { readonly pendingSince: number | undefined }) {
  /** By minute since 1970. */
  const counted = new Map<number, TimelineMinute>();
  /** End of the counted time out of sync. */
  let countedUntil = 0;
  const of = (minute: number): TimelineMinute => counted.get(minute) ?? { syncs: 0, outOfSyncMs: 0 };
  const count = (minute: number, syncs: number, outOfSyncMs: number) => {
    const before = of(minute);
    counted.set(minute, { syncs: before.syncs + syncs, outOfSyncMs: before.outOfSyncMs + outOfSyncMs });
    for (const old of counted.keys()) if (old <= minute - TIMELINE_MINUTES) counted.delete(old);
  };
  const countOutOfSync = (from: number, to: number) => {
    const oldest = (minuteOf(to) - TIMELINE_MINUTES + 1) * MINUTE;
    let start = Math.max(from, countedUntil, oldest);
    countedUntil = Math.max(countedUntil, to);
    while (start < to) {
      const end = Math.min(to, (minuteOf(start) + 1) * MINUTE);
      count(minuteOf(start), 0, end - start);
      start = end;
    }
  };
  return {
    synced({ startedAt, endedAt }: Pick<SyncReport, "startedAt" | "endedAt">): void {
      countOutOfSync(health.pendingSince ?? startedAt, endedAt);
      count(minuteOf(endedAt), 1, 0);
    },
    /** Returns the last 60 minutes, oldest first. The last one is the current, incomplete minute. */
    minutes(now: number): readonly TimelineMinute[] {
      if (health.pendingSince !== undefined) countOutOfSync(health.pendingSince, now);
      const first = minuteOf(now) - TIMELINE_MINUTES + 1;
      return Array.from({ length: TIMELINE_MINUTES }, (_, index) => of(first + index));
    },
  };
}

function minuteOf(at: number): number {
  return Math.floor(at / MINUTE);
}
