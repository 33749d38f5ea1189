import { describe, expect, test } from "vitest";
import { heapKeeper } from "../../../src/daemon/heap-keeper.ts";
import { onlyElements, type TableDelta } from "../../../src/nft/delta.ts";
import { renderAll } from "../../support/build.ts";
import { ManualClock } from "../../support/manual-clock.ts";

function setUp() {
  const clock = new ManualClock();
  const collected: number[] = [];
  return { clock, collected, keeper: heapKeeper(clock, () => collected.push(clock.now())) };
}

/** Returns a delta of one table with this number of deleted elements. */
function elements(count: number): TableDelta[] {
  const { ip } = renderAll({}).state.ruleset;
  const spec = ip?.sets.get("cluster-ips")?.spec;
  if (ip === undefined || spec === undefined) throw new Error("no IPv4");
  const deleted = Array.from({ length: count }, (_, index) => ({ key: String(index), value: "" }));
  return [onlyElements({ family: "ip", table: ip.name }, [{ spec, deleted, added: [] }])];
}

describe("heapKeeper", () => {
  test("collects garbage once the daemon has been quiet after a full sync", () => {
    const { clock, collected, keeper } = setUp();
    keeper.synced({ kind: "full", deltas: [] });
    clock.advance(2999);
    keeper.synced({ kind: "partial", deltas: elements(1) });
    clock.advance(2999);
    expect(collected).toEqual([]);
    clock.advance(60_000);
    expect(collected).toEqual([5999]);
  });

  test("collects garbage after many small changes, not after each one", () => {
    const { clock, collected, keeper } = setUp();
    for (let n = 0; n < 20; n++) {
      keeper.synced({ kind: "partial", deltas: elements(999) });
      clock.advance(5000);
    }
    expect(collected).toHaveLength(1);
  });

  test("does nothing after stop()", () => {
    const { clock, collected, keeper } = setUp();
    keeper.synced({ kind: "full", deltas: [] });
    keeper.stop();
    keeper.synced({ kind: "full", deltas: [] });
    clock.advance(60_000);
    expect([collected, clock.timers]).toEqual([[], 0]);
  });
});
