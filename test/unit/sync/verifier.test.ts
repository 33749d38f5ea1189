import { describe, expect, test } from "vitest";
import { diffRuleset, type TableDelta } from "../../../src/nft/delta.ts";
import { removalTransaction } from "../../../src/nft/transaction.ts";
import { QuietListings } from "../../../src/sync/listings.ts";
import { QuietTime } from "../../../src/sync/quiet-time.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import { Verifier } from "../../../src/sync/verifier.ts";
import { cacheOf, port, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { syncReport } from "../../support/sync-report.ts";

const web = service({ ports: [port(80)] });
const LOST = { family: "ip", table: "nft-proxy", name: "cluster-ips", elem: ["10.96.0.10"] } as const;

async function setUp({ maxPeriodMs = 3_600_000 } = {}) {
  const cache = cacheOf({ services: [web], slices: [slice({ endpoints: ["10.244.2.11", "10.244.2.12"] })] });
  const fake = new FakeNft();
  const clock = new ManualClock(100_000);
  const reconciler = new Reconciler({ cache, nft: fake.nft });
  const logger = memoryLogger();
  const verified: number[] = [];
  const quiet = new QuietTime(clock);
  const watch = { isTrusted: false, isIntactSince: async (_at: number) => watch.isTrusted };
  const found: TableDelta[] = [];
  const verifier = new Verifier({
    listings: new QuietListings(fake.nft, quiet, clock),
    urgentListings: new QuietListings(fake.nft, quiet, clock, true),
    quiet,
    watch,
    clock,
    logger,
    reconciler,
    maxPeriodMs: () => maxPeriodMs,
    onVerified: (at) => verified.push(at),
  });
  const sync = async () => {
    const outcome = await reconciler.sync({ nodeContext: testNodeContext(), services: cache.takeDirty() });
    verifier.synced(syncReport({ ...outcome, endedAt: clock.now() }));
  };
  await sync();
  const unreadable: string[] = [];
  verifier.start({
    onDifferences: (deltas) => found.push(...deltas),
    onUnreadable: (reason) => unreadable.push(reason),
  });
  const pass = async (ms: number) => {
    clock.advance(ms);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { watch, unreadable, logger, cache, fake, clock, reconciler, verifier, verified, found, sync, pass };
}

describe("Verifier", () => {
  test("reports the time of each comparison without differences, a full sync's included", async () => {
    const { verified, found, pass } = await setUp();
    expect(verified).toEqual([100_000]);
    await pass(10_000);
    await pass(10_000);
    expect([verified, found]).toEqual([[100_000, 110_000, 120_000], []]);
  });

  test("reports an element that somebody deleted", async () => {
    const { fake, found, pass } = await setUp();
    fake.kernel.apply({ nftables: [{ delete: { element: LOST } }] });
    await pass(10_000);
    expect(found.flatMap(({ elements }) => elements.flatMap(({ added }) => added))).toEqual([
      { key: "10.96.0.10", value: "" },
    ]);
  });

  test("reports a missing table", async () => {
    const { fake, found, pass } = await setUp();
    fake.kernel.apply(removalTransaction([{ family: "ip6", name: "nft-proxy" }]));
    await pass(10_000);
    expect(found.map(({ family, mode }) => [family, mode])).toEqual([["ip6", "create"]]);
  });

  test("does not report changes that a sync makes during the comparison, nor stale chains", async () => {
    const { cache, fake, found, verified, sync, pass } = await setUp();
    let changed = false;
    fake.before = async (run) => {
      if (run !== "list" || changed) return;
      changed = true;
      cache.putSlice(slice({ endpoints: ["10.244.2.11"] }));
      await sync();
    };
    await pass(10_000);
    expect(changed).toBe(true);
    await pass(10_000);
    expect([found, verified.length]).toEqual([[], 3]);
  });

  test.each(["fails", "is a full one"])("reports nothing when a sync %s during the comparison", async (how) => {
    const { clock, fake, verifier, found, pass } = await setUp();
    fake.kernel.apply({ nftables: [{ delete: { element: LOST } }] });
    let isUnderWay = false;
    fake.before = (run) => {
      if (run !== "list" || isUnderWay) return;
      isUnderWay = true;
      if (how === "fails") verifier.failed();
      else verifier.synced(syncReport({ kind: "full", endedAt: clock.now() }));
    };
    await pass(10_000);
    expect([isUnderWay, found]).toEqual([true, []]);
    await pass(10_000);
    expect(found).not.toEqual([]);
  });

  test("compares every 20 s while our tables change, however long a comparison takes", async () => {
    const { cache, clock, fake, verified, sync, pass } = await setUp();
    let slow = true;
    fake.before = async () => {
      if (!slow) return;
      slow = false;
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(5000);
    };
    await pass(10_000);
    await pass(0);
    await pass(19_000);
    cache.putSlice(slice({ endpoints: ["10.244.2.11"] }));
    await sync();
    await pass(19_999);
    expect(verified).toHaveLength(2);
    await pass(1);
    expect(verified).toHaveLength(3);
  });

  test("has verified without a listing while the kernel tells of nobody else's change", async () => {
    const { fake, verified, found, watch, pass } = await setUp();
    watch.isTrusted = true;
    await pass(10_000);
    await pass(0);
    fake.kernel.apply({ nftables: [{ delete: { element: LOST } }] });
    await pass(10_000);
    expect([verified, found]).toEqual([[100_000, 110_000, 120_000], []]);
    watch.isIntactSince = async () => false;
    await pass(10_000);
    expect(found).not.toEqual([]);
  });

  test("compares every 20 s where the kernel tells of somebody else's changes again and again", async () => {
    const { clock, fake, verified, watch, pass } = await setUp();
    watch.isTrusted = true;
    watch.isIntactSince = async () => false;
    let slow = true;
    fake.before = async () => {
      if (!slow) return;
      slow = false;
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(500);
    };
    await pass(10_000);
    await pass(0);
    await pass(19_999);
    expect(verified).toHaveLength(2);
    await pass(1);
    expect(verified).toHaveLength(3);
  });

  test("compares only 10 s after a full sync, which compared as well", async () => {
    const { clock, verifier, verified, pass } = await setUp();
    await pass(6000);
    verifier.synced(syncReport({ kind: "full", endedAt: clock.now(), deltas: [] }));
    await pass(4000);
    await pass(5999);
    expect(verified).toEqual([100_000, 106_000]);
    await pass(1);
    expect(verified).toEqual([100_000, 106_000, 116_000]);
  });

  test("goes on when the wall clock is set back", async () => {
    const { cache, clock, verified, sync, pass } = await setUp();
    cache.putSlice(slice({ endpoints: ["10.244.2.11"] }));
    await sync();
    clock.set(0);
    await pass(10_000);
    expect(verified).toEqual([100_000, 10_000]);
  });

  test("does not report changes that no sync has brought to the kernel yet", async () => {
    const { cache, fake, reconciler, found, pass } = await setUp();
    cache.putSlice(slice({ endpoints: ["10.244.2.11"] }));
    fake.timesOut = true;
    await expect(reconciler.sync({ nodeContext: testNodeContext(), services: cache.takeDirty() })).rejects.toThrow();
    fake.timesOut = false;
    expect(diffRuleset(fake.kernel.ruleset, reconciler.state.ruleset)).not.toEqual([]);
    await pass(10_000);
    expect(found).toEqual([]);
  });

  test.each([
    ["100 times the length of the last comparison", 3_600_000, 400, 40_000],
    ["the longest period", 15_000, 400, 15_000],
  ])("waits for %s", async (_rule, maxPeriodMs, length, wait) => {
    const { clock, fake, verified, pass } = await setUp({ maxPeriodMs });
    let slow = true;
    fake.before = async () => {
      if (!slow) return;
      slow = false;
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(length);
    };
    await pass(10_000);
    await pass(0);
    await pass(wait - 1);
    expect(verified).toHaveLength(2);
    await pass(1);
    expect(verified).toHaveLength(3);
  });

  test("compares again after a listing that failed", async () => {
    const { fake, verified, pass } = await setUp();
    fake.timesOut = true;
    await pass(10_000);
    expect(verified).toHaveLength(1);
    fake.timesOut = false;
    await pass(10_000);
    expect(verified).toHaveLength(2);
  });

  test("compares again within 20 s after a listing that failed, however long that took", async () => {
    const { clock, fake, verified, pass } = await setUp();
    fake.timesOut = true;
    fake.before = async () => {
      fake.before = () => {};
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(5000);
    };
    await pass(10_000);
    await pass(0);
    fake.timesOut = false;
    await pass(20_000);
    expect(verified).toHaveLength(2);
  });

  test("compares when the watch begins, and soon again where that fails", async () => {
    const { fake, verifier, verified, found, watch, pass } = await setUp();
    fake.kernel.apply({ nftables: [{ delete: { element: LOST } }] });
    watch.isTrusted = true;
    fake.timesOut = true;
    verifier.watchBegan();
    await pass(0);
    fake.timesOut = false;
    watch.isIntactSince = async () => false;
    await pass(10_000);
    expect(found).not.toEqual([]);
    expect(verified).toHaveLength(1);
    verifier.watchBegan();
    await pass(0);
    expect(found).toHaveLength(2);
  });

  test.each([
    ["3 s where nobody else changed our tables since", true, 3000],
    ["5 s where somebody may have", false, 5000],
  ])("answers with an older comparison after %s", async (_where, isIntact, patience) => {
    const { fake, verifier, watch, clock, pass } = await setUp();
    watch.isTrusted = true;
    for (let n = 0; n < 5; n++) await pass(10_000);
    watch.isIntactSince = async () => isIntact;
    fake.before = () => new Promise(() => {});
    let at: number | undefined;
    void verifier.find().then((found) => {
      at = found.at;
    });
    const wait = async (ms: number) => {
      for (let n = 0; n < 3; n++) await pass(0);
      clock.advance(ms);
      for (let n = 0; n < 3; n++) await pass(0);
    };
    await wait(patience - 1);
    expect(at).toBeUndefined();
    await wait(1);
    expect(at).toBe(100_000);
  });

  test("warns once while the tables cannot be listed, and tells when they can", async () => {
    const { fake, logger, pass } = await setUp();
    fake.timesOut = true;
    for (let n = 0; n < 3; n++) await pass(10_000);
    fake.timesOut = false;
    await pass(10_000);
    expect(logger.lines.filter(({ level }) => level !== "debug")).toEqual([
      {
        level: "warn",
        fields: { error: expect.stringContaining("nft did not end within"), hint: expect.any(String) },
        message: "cannot read our tables to verify them, retrying (logged once)",
      },
      { level: "info", fields: { failed: 3, seconds: 30 }, message: "our tables can be read and verified again" },
    ]);
  });

  test("reports once what is not understood in tables that were, and not an nft that fails", async () => {
    const { fake, unreadable, pass } = await setUp();
    fake.broken = "Error: something foreign";
    await pass(10_000);
    expect(unreadable, "nothing was ever understood").toEqual([]);
    fake.broken = undefined;
    await pass(10_000);
    fake.timesOut = true;
    await pass(10_000);
    fake.timesOut = false;
    await pass(10_000);
    expect(unreadable).toEqual([]);
    fake.broken = "Error: something foreign";
    for (let n = 0; n < 3; n++) await pass(10_000);
    expect(unreadable).toEqual([expect.stringContaining("something foreign")]);
    fake.broken = undefined;
    await pass(10_000);
    fake.broken = "Error: something foreign";
    await pass(10_000);
    expect(unreadable).toHaveLength(2);
  });

  test("logs nothing of a listing that fails after stop()", async () => {
    const { fake, verifier, logger, pass } = await setUp();
    fake.timesOut = true;
    fake.before = () => verifier.stop();
    await pass(10_000);
    expect(logger.lines).toEqual([]);
  });

  test("compares nothing after stop()", async () => {
    const { fake, verifier, pass } = await setUp();
    const runs = fake.runs.length;
    verifier.stop();
    await pass(60_000);
    expect(fake.runs).toHaveLength(runs);
  });
});
