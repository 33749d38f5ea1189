import { expect, test } from "vitest";
import { VanishedTimer } from "../../../src/sync/vanished-timer.ts";
import { ManualClock } from "../../support/manual-clock.ts";

test("a sync is requested at the next change as of the last sync, at once if that is past, and never for none", () => {
  const clock = new ManualClock(1000);
  const next: { at: number | undefined } = { at: 4000 };
  const requested: number[] = [];
  const timer = new VanishedTimer({ nextChangeAt: () => next.at }, clock, () => requested.push(clock.now()));
  timer.synced();
  next.at = 3000;
  timer.synced();
  clock.advance(5000);
  expect(requested).toEqual([3000]);
  timer.synced();
  clock.advance(0);
  expect(requested).toEqual([3000, 6000]);
  next.at = undefined;
  timer.synced();
  expect(clock.timers).toBe(0);
});
