import { describe, expect, test } from "vitest";
import { HeapKeeper } from "../../../src/daemon/heap-keeper.ts";
import { ManualClock } from "../../support/manual-clock.ts";

function setUp() {
  const clock = new ManualClock();
  const collected: number[] = [];
  return { clock, collected, keeper: new HeapKeeper(clock, () => collected.push(clock.now())) };
}

describe("HeapKeeper", () => {
  test("collects once it is quiet after a full sync", () => {
    const { clock, collected, keeper } = setUp();
    keeper.synced(0, true);
    clock.advance(2999);
    keeper.synced(1, false);
    clock.advance(2999);
    expect(collected).toEqual([]);
    clock.advance(60_000);
    expect(collected).toEqual([5999]);
  });

  test("collects after many small changes, not after each", () => {
    const { clock, collected, keeper } = setUp();
    for (let n = 0; n < 20; n++) {
      keeper.synced(999, false);
      clock.advance(5000);
    }
    expect(collected).toHaveLength(1);
  });

  test("does nothing after stop()", () => {
    const { clock, collected, keeper } = setUp();
    keeper.synced(0, true);
    keeper.stop();
    keeper.synced(0, true);
    clock.advance(60_000);
    expect([collected, clock.timers]).toEqual([[], 0]);
  });
});
