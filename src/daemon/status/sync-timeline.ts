import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { HealthTracker } from "../health/health-tracker.ts";

/** How many minutes are remembered. */
const TIMELINE_MINUTES = 60;

const MINUTE = 60_000;

/** One minute. */
export interface TimelineMinute {
  readonly syncs: number;
  /** For how long something was desired that the kernel did not have, milliseconds. */
  readonly outOfSyncMs: number;
}

interface Bucket {
  syncs: number;
  outOfSyncMs: number;
}

/** Counts syncs and the time out of sync, minute by minute, for the last hour. Times are milliseconds since 1970. */
export class SyncTimeline implements SyncSubscriber {
  readonly #health: Pick<HealthTracker, "pendingSince">;
  /** By minute since 1970. */
  readonly #buckets = new Map<number, Bucket>();
  /** Time out of sync is counted up to here. */
  #countedUntil = 0;

  /** @param health reports since when the kernel has lacked something; to be told of a sync after this */
  constructor(health: Pick<HealthTracker, "pendingSince">) {
    this.#health = health;
  }

  synced({ startedAt, endedAt }: Pick<SyncReport, "startedAt" | "endedAt">): void {
    this.#countOutOfSync(this.#health.pendingSince ?? startedAt, endedAt);
    this.#bucket(minuteOf(endedAt)).syncs++;
  }

  /** The last 60 minutes, oldest first; the last one is the current, incomplete minute. */
  minutes(now: number): readonly TimelineMinute[] {
    const since = this.#health.pendingSince;
    if (since !== undefined) this.#countOutOfSync(since, now);
    const first = minuteOf(now) - TIMELINE_MINUTES + 1;
    return Array.from(
      { length: TIMELINE_MINUTES },
      (_, i) => this.#buckets.get(first + i) ?? { syncs: 0, outOfSyncMs: 0 },
    );
  }

  #countOutOfSync(from: number, to: number): void {
    const oldest = (minuteOf(to) - TIMELINE_MINUTES + 1) * MINUTE;
    let start = Math.max(from, this.#countedUntil, oldest);
    this.#countedUntil = Math.max(this.#countedUntil, to);
    while (start < to) {
      const end = Math.min(to, (minuteOf(start) + 1) * MINUTE);
      this.#bucket(minuteOf(start)).outOfSyncMs += end - start;
      start = end;
    }
  }

  #bucket(minute: number): Bucket {
    const found = this.#buckets.get(minute);
    if (found !== undefined) return found;
    const bucket = { syncs: 0, outOfSyncMs: 0 };
    this.#buckets.set(minute, bucket);
    for (const old of this.#buckets.keys()) if (old <= minute - TIMELINE_MINUTES) this.#buckets.delete(old);
    return bucket;
  }
}

function minuteOf(at: number): number {
  return Math.floor(at / MINUTE);
}
