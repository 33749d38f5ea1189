import { expect, test } from "vitest";
import { syncTimeline } from "../../../../src/daemon/health/sync-history.ts";

/** A time at the beginning of a minute. */
const START = 1_800_000_000_000 - (1_800_000_000_000 % 60_000);

/** Returns a timeline and its health, for which a test can set since when a change has been pending. */
function timeline() {
  const health: { pendingSince: number | undefined } = { pendingSince: undefined };
  return { health, timeline: syncTimeline(health) };
}

test("the timeline counts a sync in the minute of its end, and the wait in the minutes of the wait", () => {
  const { health, timeline: made } = timeline();
  health.pendingSince = START - 2000;
  made.synced({ startedAt: START - 500, endedAt: START + 1000 });
  health.pendingSince = undefined;
  const minutes = made.minutes(START + 30_000);
  expect(minutes).toHaveLength(60);
  expect(minutes.slice(-2)).toEqual([
    { syncs: 0, outOfSyncMs: 2000 },
    { syncs: 1, outOfSyncMs: 1000 },
  ]);
});

test("the timeline counts an ongoing wait up to now, and only once", () => {
  const { health, timeline: made } = timeline();
  health.pendingSince = START;
  made.minutes(START + 10_000);
  expect(made.minutes(START + 20_000).at(-1)).toEqual({ syncs: 0, outOfSyncMs: 20_000 });
  made.synced({ startedAt: START + 21_000, endedAt: START + 25_000 });
  health.pendingSince = undefined;
  expect(made.minutes(START + 59_000).at(-1)).toEqual({ syncs: 1, outOfSyncMs: 25_000 });
});

test("the timeline counts an unrequested sync as out of sync from its start", () => {
  const { timeline: made } = timeline();
  made.synced({ startedAt: START, endedAt: START + 300 });
  expect(made.minutes(START + 1000).at(-1)).toEqual({ syncs: 1, outOfSyncMs: 300 });
});

test("the timeline drops values after an hour, and a long wait fills the whole hour", () => {
  const { health, timeline: made } = timeline();
  made.synced({ startedAt: START, endedAt: START });
  health.pendingSince = START;
  const minutes = made.minutes(START + 3 * 3_600_000);
  expect(minutes.reduce((sum, { syncs }) => sum + syncs, 0)).toBe(0);
  expect(minutes.slice(0, -1).every(({ outOfSyncMs }) => outOfSyncMs === 60_000)).toBe(true);
});
