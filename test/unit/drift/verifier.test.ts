import { describe, expect, test } from "vitest";
import { type TimedComparison, Verifier } from "../../../src/drift/verifier.ts";
import { diffRuleset, type TableDelta } from "../../../src/nft/delta.ts";
import { removalTransaction } from "../../../src/nft/transaction.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import { cacheOf, port, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { syncReport } from "../../support/sync-report.ts";

const web = service({ ports: [port(80)] });
const LOST = { family: "ip", table: "nft-proxy", name: "cluster-ips", elem: ["10.96.0.10"] } as const;
const PERIOD = 29_000;

const turn = () => new Promise((resolve) => setImmediate(resolve));

async function setUp({ maxPeriodMs = 3_600_000, isStarted = true } = {}) {
  const cache = cacheOf({ services: [web], slices: [slice({ endpoints: ["10.244.2.11", "10.244.2.12"] })] });
  const fake = new FakeNft();
  const clock = new ManualClock(100_000);
  const { tables } = fake;
  const reconciler = new Reconciler({ cache, nft: fake.nft, tables });
  const logger = memoryLogger();
  const verified: number[] = [];
  const events = { isTrusted: true, isIntact: false, isIntactSince: async (_at: number) => events.isIntact };
  const found: TableDelta[] = [];
  const unreadable: string[] = [];
  const verifier = new Verifier({
    tables,
    events,
    clock,
    logger,
    reconciler,
    maxPeriodMs: () => maxPeriodMs,
    onVerified: (at) => verified.push(at),
    onDifferences: (deltas) => found.push(...deltas),
    onUnreadable: (reason) => unreadable.push(reason),
  });
  const sync = async () => {
    const outcome = await reconciler.sync({ nodeContext: testNodeContext(), services: cache.takeDirty() });
    verifier.synced(syncReport({ ...outcome, endedAt: clock.now() }));
  };
  await sync();
  if (isStarted) verifier.start();
  const pass = async (ms: number) => {
    clock.advance(ms);
    for (let turns = 0; turns < 3; turns++) await turn();
  };
  const verify = () => pass(PERIOD);
  /** The next comparison takes so long. */
  const slow = (ms: number) => {
    fake.before = async () => {
      fake.before = () => {};
      await turn();
      clock.advance(ms);
    };
  };
  /** Has the comparison that begins next wait until the returned function is called. */
  const hold = () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    fake.before = async () => {
      fake.before = () => {};
      await held;
    };
    return release;
  };
  const lose = () => fake.kernel.apply({ nftables: [{ delete: { element: LOST } }] });
  const putBack = () => fake.kernel.apply({ nftables: [{ add: { element: LOST } }] });
  const parts = { events, unreadable, logger, cache, fake, clock, reconciler, verifier, verified, found };
  return { ...parts, sync, pass, verify, slow, hold, lose, putBack };
}

const addedIn = (found: readonly TableDelta[]) =>
  found.flatMap(({ elements }) => elements.flatMap(({ added }) => added.map(({ key }) => key)));

describe("Verifier", () => {
  test("verifies by a full sync, and by a comparison each half minute while others change our tables", async () => {
    const { verified, found, pass } = await setUp();
    expect(verified).toEqual([100_000]);
    await pass(PERIOD - 1);
    expect(verified).toHaveLength(1);
    await pass(1);
    await pass(PERIOD);
    expect([verified, found]).toEqual([[100_000, 129_000, 158_000], []]);
  });

  test("verifies without reading while the kernel reports no foreign change", async () => {
    const { fake, verified, found, events, lose, pass, verify, slow } = await setUp();
    slow(300);
    await pass(PERIOD);
    const listed = fake.count("list");
    events.isIntact = true;
    lose();
    for (let n = 0; n < 3; n++) await pass(PERIOD);
    expect([verified.slice(1), found, fake.count("list")]).toEqual([
      [129_300, 158_300, 187_300, 216_300],
      [],
      listed,
    ]);
    events.isIntact = false;
    await verify();
    expect(addedIn(found)).toEqual(["10.96.0.10"]);
  });

  test("compares in its first verification, even if a full sync ended meanwhile and nobody else changed anything", async () => {
    const { fake, reconciler, events, sync, pass, slow } = await setUp();
    events.isIntact = true;
    await pass(PERIOD / 2);
    reconciler.requestFullSync("periodic");
    await sync();
    slow(300);
    const listed = fake.count("list");
    await pass(PERIOD / 2);
    const compared = fake.count("list");
    expect(compared).toBeGreaterThan(listed);
    await pass(PERIOD);
    expect(fake.count("list")).toBe(compared);
  });

  test("asks whether anything changed since it began the last comparison, or a full sync ended", async () => {
    const { events, verifier, clock, pass, slow } = await setUp();
    const asked: number[] = [];
    events.isIntactSince = async (at) => {
      asked.push(at);
      return true;
    };
    slow(1000);
    await pass(PERIOD);
    await pass(PERIOD);
    await pass(5000);
    verifier.synced(syncReport({ kind: "full", endedAt: clock.now() }));
    verifier.synced(syncReport({ kind: "partial", endedAt: clock.now() + 7 }));
    await pass(PERIOD - 5000);
    expect(asked).toEqual([29_000, 64_000]);
  });

  test.each([
    ["1000 times the length of the last comparison", 3_600_000, 100, 100_000],
    ["the longest period", 70_000, 100, 70_000],
  ])("compares after %s though nobody else changed anything", async (_rule, maxPeriodMs, length, period) => {
    const { clock, fake, events, pass, slow } = await setUp({ maxPeriodMs });
    events.isIntact = true;
    slow(length);
    await pass(PERIOD);
    const [at, listed] = [129_000, fake.count("list")];
    while (clock.now() + PERIOD < at + period) await pass(PERIOD);
    expect(fake.count("list")).toBe(listed);
    await pass(PERIOD);
    expect(fake.count("list")).toBeGreaterThan(listed);
  });

  test("reads nothing without notifications, and verifies by full resyncs alone", async () => {
    const { fake, clock, events, verifier, verified, found, lose, pass } = await setUp();
    events.isTrusted = false;
    events.isIntact = true;
    lose();
    const listed = fake.count("list");
    for (let n = 0; n < 5; n++) await pass(PERIOD);
    expect([fake.count("list"), verified, found]).toEqual([listed, [100_000], []]);
    verifier.synced(syncReport({ kind: "full", endedAt: clock.now() }));
    verifier.synced(syncReport({ kind: "partial", endedAt: clock.now() + 1 }));
    expect(verified).toEqual([100_000, 245_000]);
  });

  test("reports elements that others deleted and added", async () => {
    const { fake, found, verified, lose, verify } = await setUp();
    lose();
    fake.kernel.apply({ nftables: [{ add: { element: { ...LOST, elem: ["192.0.2.1"] } } }] });
    await verify();
    expect([addedIn(found), verified]).toEqual([["10.96.0.10"], [100_000]]);
    expect(found.flatMap(({ elements }) => elements.flatMap(({ deleted }) => deleted))).toEqual([
      { key: "192.0.2.1", value: "" },
    ]);
  });

  test("reports a missing table", async () => {
    const { fake, found, verify } = await setUp();
    fake.kernel.apply(removalTransaction([{ family: "ip6", name: "nft-proxy" }]));
    await verify();
    expect(found.map(({ family, mode }) => [family, mode])).toEqual([["ip6", "create"]]);
  });

  test("does not report a missing table that a repair is to make, or makes during the comparison", async () => {
    const { fake, found, reconciler, sync, verify } = await setUp();
    fake.kernel.apply(removalTransaction([{ family: "ip6", name: "nft-proxy" }]));
    const missing = diffRuleset(fake.kernel.ruleset, reconciler.state.ruleset);
    reconciler.requestRepair(missing);
    await verify();
    expect(found, "it is due").toEqual([]);
    let comparing: Promise<void> | undefined;
    fake.before = async (run) => {
      if (run !== "apply") return;
      comparing ??= verify();
      await comparing;
    };
    await sync();
    expect([found, comparing]).toEqual([[], expect.any(Promise)]);
    fake.before = () => {};
    fake.kernel.apply(removalTransaction([{ family: "ip6", name: "nft-proxy" }]));
    await verify();
    expect(found.map(({ family, mode }) => [family, mode])).toEqual([["ip6", "create"]]);
  });

  test("does not report changes that a sync makes during the comparison, nor stale chains", async () => {
    const { cache, fake, found, verified, sync, verify } = await setUp();
    let changed = false;
    fake.before = async (run) => {
      if (run !== "list" || changed) return;
      changed = true;
      cache.putSlice(slice({ endpoints: ["10.244.2.11"] }));
      await sync();
    };
    await verify();
    expect(changed).toBe(true);
    await verify();
    expect([found, verified.length]).toEqual([[], 3]);
  });

  test.each(["fails", "is a full one"])(
    "reports nothing when a sync %s during the comparison",
    async (how) => {
      const { clock, fake, verifier, found, lose, verify } = await setUp();
      lose();
      let isUnderWay = false;
      fake.before = (run) => {
        if (run !== "list" || isUnderWay) return;
        isUnderWay = true;
        if (how === "fails") verifier.failed();
        else verifier.synced(syncReport({ kind: "full", endedAt: clock.now() }));
      };
      await verify();
      expect([isUnderWay, found]).toEqual([true, []]);
      await verify();
      expect(addedIn(found)).toEqual(["10.96.0.10"]);
    },
  );

  test("continues when the wall clock is set back", async () => {
    const { clock, verified, pass } = await setUp();
    clock.set(0);
    await pass(PERIOD);
    expect(verified).toEqual([100_000, 29_000]);
  });

  test("does not report changes that no sync has brought to the kernel yet", async () => {
    const { cache, fake, reconciler, found, verify } = await setUp();
    cache.putSlice(slice({ endpoints: ["10.244.2.11"] }));
    fake.timesOut = true;
    await expect(
      reconciler.sync({ nodeContext: testNodeContext(), services: cache.takeDirty() }),
    ).rejects.toThrow();
    fake.timesOut = false;
    expect(diffRuleset(fake.kernel.ruleset, reconciler.state.ruleset)).not.toEqual([]);
    await verify();
    expect(found).toEqual([]);
  });

  test("compares again after a comparison that failed", async () => {
    const { fake, verified, pass } = await setUp();
    fake.timesOut = true;
    await pass(PERIOD);
    expect(verified).toHaveLength(1);
    fake.timesOut = false;
    await pass(PERIOD);
    expect(verified).toHaveLength(2);
  });

  test("compares again where the last comparison found differences, though nobody else changed anything since", async () => {
    const { fake, events, found, lose, verified, verify, slow } = await setUp();
    slow(1000);
    lose();
    await verify();
    events.isIntact = true;
    const listed = fake.count("list");
    await verify();
    expect([addedIn(found), verified.length]).toEqual([["10.96.0.10", "10.96.0.10"], 1]);
    expect(fake.count("list")).toBeGreaterThan(listed);
  });

  test("compares at once after changes may have been missed", async () => {
    const { events, verifier, found, lose, pass } = await setUp();
    events.isIntact = true;
    lose();
    verifier.compareNow();
    await pass(0);
    expect(addedIn(found)).toEqual(["10.96.0.10"]);
  });

  test("compares nothing before it was started", async () => {
    const { fake, verifier, pass } = await setUp({ isStarted: false });
    const runs = fake.runs.length;
    verifier.compareNow();
    await pass(60_000);
    expect(fake.runs).toHaveLength(runs);
  });

  test("warns once while the tables cannot be read, and logs when they can be read again", async () => {
    const { fake, logger, pass } = await setUp();
    fake.timesOut = true;
    for (let n = 0; n < 3; n++) await pass(PERIOD);
    fake.timesOut = false;
    await pass(PERIOD);
    expect(logger.lines.filter(({ level }) => level !== "debug")).toEqual([
      {
        level: "warn",
        fields: { error: expect.stringContaining("nft did not end within"), hint: expect.any(String) },
        message: "cannot read our tables to verify them, retrying (logged once)",
      },
      {
        level: "info",
        fields: { failed: 3, seconds: 87 },
        message: "can read our tables to verify them again",
      },
    ]);
  });

  test("reports tables once that are no longer understood, and no failure of nft", async () => {
    const { fake, unreadable, pass } = await setUp();
    fake.broken = "Error: something foreign";
    await pass(PERIOD);
    expect(unreadable, "nothing was ever understood").toEqual([]);
    fake.broken = undefined;
    await pass(PERIOD);
    fake.timesOut = true;
    await pass(PERIOD);
    fake.timesOut = false;
    await pass(PERIOD);
    expect(unreadable).toEqual([]);
    fake.broken = "Error: something foreign";
    for (let n = 0; n < 3; n++) await pass(PERIOD);
    expect(unreadable).toEqual([expect.stringContaining("something foreign")]);
    fake.broken = undefined;
    await pass(PERIOD);
    fake.broken = "Error: something foreign";
    await pass(PERIOD);
    expect(unreadable).toHaveLength(2);
  });

  test("reports nothing of a comparison that is under way at stop()", async () => {
    const { fake, verifier, logger, found, lose, verify } = await setUp();
    lose();
    fake.before = () => verifier.stop();
    await verify();
    expect([logger.lines, found]).toEqual([[], []]);
  });

  test.each(["a verification", "a repair"])(
    "ends the comparison for %s at stop(), and begins no other",
    async (why) => {
      const { fake, verifier, hold, pass } = await setUp();
      const listed = fake.count("list");
      const release = hold();
      const compared = why === "a repair" ? verifier.recheck("everything") : verifier.find();
      await pass(0);
      verifier.stop();
      release();
      await compared;
      expect(fake.count("list") - listed, "the second table is not listed").toBe(1);
      expect([await verifier.recheck("everything"), (await verifier.find()).comparison.kind]).toEqual([
        undefined,
        "unreadable",
      ]);
    },
  );

  test("compares nothing after stop()", async () => {
    const { fake, verifier, pass } = await setUp();
    const runs = fake.runs.length;
    verifier.stop();
    await pass(60_000);
    expect(fake.runs).toHaveLength(runs);
  });
});

describe("Verifier.find", () => {
  test("returns and reports the result of a new comparison", async () => {
    const { verifier, found, clock, lose, pass } = await setUp();
    lose();
    await pass(10_000);
    const finding = verifier.find();
    await pass(0);
    expect(await finding).toMatchObject({
      at: 10_000,
      comparison: { kind: "compared", differences: [{ family: "ip" }] },
    });
    expect([addedIn(found), clock.now()]).toEqual([["10.96.0.10"], 110_000]);
  });

  test("works without the kernel's notifications, and before it was started", async () => {
    const { verifier, events } = await setUp({ isStarted: false });
    events.isTrusted = false;
    const comparison = { kind: "compared", differences: [] };
    expect(await verifier.find()).toEqual({ at: 0, took: 0, comparison, inDoubt: false });
  });

  test("reports nothing before the verifier was started", async () => {
    const { verifier, fake, found, verified, unreadable, lose } = await setUp({ isStarted: false });
    lose();
    expect((await verifier.find()).comparison).toMatchObject({ differences: [{ family: "ip" }] });
    fake.broken = "Error: something foreign";
    expect((await verifier.find()).comparison.kind).toBe("unreadable");
    expect([found, verified, unreadable]).toEqual([[], [100_000], []]);
  });

  test("shares one comparison among all callers that ask during another one", async () => {
    const { fake, verifier, hold, pass, clock } = await setUp();
    const listed = fake.count("list");
    const release = hold();
    const first = verifier.find();
    await pass(0);
    const findings = [verifier.find(), verifier.find(), verifier.find(new AbortController().signal)];
    await pass(5);
    release();
    const all = await Promise.all(findings);
    expect(new Set(all).size, "one answer").toBe(1);
    expect([(await first).at, all[0]?.at]).toEqual([0, clock.monotonic()]);
    const twice = fake.count("list") - listed;
    await verifier.find();
    expect(fake.count("list") - listed).toBe(1.5 * twice);
  });

  test("ends a comparison when no caller waits for it any more", async () => {
    const { fake, verifier, hold, pass, logger } = await setUp();
    const listed = fake.count("list");
    const release = hold();
    const asked = [new AbortController(), new AbortController()];
    const findings = asked.map(({ signal }) => verifier.find(signal));
    await pass(0);
    asked[0]?.abort();
    asked[1]?.abort();
    release();
    const all: TimedComparison[] = await Promise.all(findings);
    expect(all.map(({ comparison }) => comparison.kind)).toEqual(["unreadable", "unreadable"]);
    expect([fake.count("list") - listed, logger.lines]).toEqual([1, []]);
  });

  test("begins another comparison for a caller that comes after the last one has left the next", async () => {
    const { verifier, hold, pass } = await setUp();
    const release = hold();
    const running = verifier.find();
    await pass(0);
    const asked = new AbortController();
    const left = verifier.find(asked.signal);
    asked.abort();
    const after = verifier.find();
    release();
    const all: TimedComparison[] = await Promise.all([running, left, after]);
    expect(all.map(({ comparison }) => comparison.kind)).toEqual(["compared", "unreadable", "compared"]);
  });

  test("continues a comparison while another caller waits for it", async () => {
    const { verifier, hold, pass } = await setUp();
    const release = hold();
    const asked = new AbortController();
    const findings = [verifier.find(asked.signal), verifier.find()];
    await pass(0);
    asked.abort();
    release();
    const all = await Promise.all(findings);
    expect(all.map(({ comparison }) => comparison.kind)).toEqual(["compared", "compared"]);
  });

  test("tries three times if syncs leave the result in doubt", async () => {
    const { fake, clock, verifier, verified } = await setUp();
    const before = fake.count("list");
    await verifier.find();
    const listings = fake.count("list") - before;
    let doubts = 2;
    fake.before = () => {
      // The first listing of each comparison.
      if ((fake.count("list") - before - 1) % listings === 0 && doubts-- > 0) verifier.failed();
    };
    expect((await verifier.find()).comparison).toEqual({ kind: "compared", differences: [] });
    expect([fake.count("list") - before, verified.length]).toEqual([4 * listings, 3]);
    fake.before = () => verifier.failed();
    expect(await verifier.find()).toMatchObject({
      at: clock.monotonic(),
      comparison: { kind: "unreadable", isNftAtFault: true, reason: expect.stringContaining("syncs failed") },
    });
    expect([fake.count("list") - before, verified.length]).toEqual([7 * listings, 3]);
  });
});

describe("Verifier.recheck", () => {
  test("returns differences, and reports nothing", async () => {
    const { verifier, found, verified, lose, putBack } = await setUp();
    lose();
    expect(addedIn((await verifier.recheck("everything")) ?? [])).toEqual(["10.96.0.10"]);
    putBack();
    expect([await verifier.recheck("everything"), found, verified]).toEqual([[], [], [100_000]]);
  });

  test("reads no elements if asked for declarations", async () => {
    const { fake, verifier, lose } = await setUp();
    lose();
    fake.kernel.apply({
      nftables: [{ add: { chain: { family: "ip6", table: "nft-proxy", name: "stranger" } } }],
    });
    const listed = fake.count("list");
    expect(await verifier.recheck("declarations")).toMatchObject([
      { family: "ip6", objects: [{ name: "stranger", after: undefined }] },
    ]);
    expect(fake.count("list") - listed).toBe(2);
  });

  test("returns undefined if the tables cannot be read, or if syncs leave the result in doubt three times", async () => {
    const { fake, verifier } = await setUp();
    fake.broken = "Error: something foreign";
    expect(await verifier.recheck("everything")).toBeUndefined();
    fake.broken = undefined;
    fake.before = () => verifier.failed();
    const listed = fake.count("list");
    expect(await verifier.recheck("declarations")).toBeUndefined();
    expect(fake.count("list") - listed).toBe(3 * 2);
  });
});
