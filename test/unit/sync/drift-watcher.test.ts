import { describe, expect, test } from "vitest";
import type { Command } from "../../../src/nft/ast/json.ts";
import { rebuildTransaction, removalTransaction } from "../../../src/nft/transaction.ts";
import { type Drift, DriftWatcher } from "../../../src/sync/drift-watcher.ts";
import type { Expectation } from "../../../src/sync/sync-loop.ts";
import { renderAll, service } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const { ruleset } = renderAll({ services: [service()] }).state;

function setUp() {
  const fake = new FakeNft();
  fake.kernel.apply(rebuildTransaction(ruleset));
  const clock = new ManualClock();
  const logger = memoryLogger();
  const found: Drift[] = [];
  const view: { expectation: Expectation | undefined } = { expectation: { ruleset } };
  const watcher = new DriftWatcher({
    nft: fake.nft,
    clock,
    logger,
    expected: () => view.expectation,
    onDrift: (drift) => found.push(drift),
    tablesPeriodMs: () => 1000,
    chainsPeriodMs: () => 10_000,
  });
  watcher.start();
  const pass = async (seconds: number) => {
    for (let n = 0; n < seconds; n++) {
      clock.advance(1000);
      // The next poll is due when this one has ended.
      while (clock.timers === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { fake, clock, logger, found, view, watcher, pass };
}

const emptied: Command = { flush: { chain: { family: "ip6", table: "nft-proxy", name: "services" } } };

describe("DriftWatcher", () => {
  test("reports nothing while the tables are right", async () => {
    const { found, pass, fake } = setUp();
    await pass(21);
    expect(found).toEqual([]);
    expect(fake.count("list"), "tables each second, chains of both families twice").toBe(21 + 4);
  });

  test("reports a missing table at the next poll", async () => {
    const { fake, found, pass } = setUp();
    fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    await pass(1);
    expect(found).toEqual([{ kind: "tables", missing: ["ip nft-proxy"] }]);
  });

  test("reports a changed chain within ten seconds", async () => {
    const { fake, found, pass } = setUp();
    fake.kernel.apply({ nftables: [emptied] });
    await pass(10);
    expect(found).toEqual([{ kind: "chain", chain: "ip6 services" }]);
  });

  test("reports once what is not understood in chains that were, and not an nft that fails", async () => {
    const { fake, found, pass } = setUp();
    const foundAfter: [answer: string, found: number][] = [];
    for (const answer of ["foreign", "right", "hangs", "foreign", "foreign", "right"] as const) {
      // The names of the tables are listed each second, and after the tenth time the chains.
      const before = fake.count("list");
      fake.before = () => {
        const isOfChains = fake.count("list") > before + 10;
        fake.broken = isOfChains && answer === "foreign" ? "Error: something foreign" : undefined;
        fake.timesOut = isOfChains && answer === "hangs";
      };
      await pass(10);
      foundAfter.push([answer, found.length]);
    }
    expect(foundAfter).toEqual([
      ["foreign", 0],
      ["right", 0],
      ["hangs", 0],
      ["foreign", 1],
      ["foreign", 1],
      ["right", 1],
    ]);
    expect(found).toEqual([{ kind: "unreadable", reason: expect.stringContaining("something foreign") }]);
  });

  test("goes on looking at chains when the wall clock is set back", async () => {
    const { fake, clock, found, pass } = setUp();
    await pass(10);
    clock.set(-3_600_000);
    fake.kernel.apply({ nftables: [emptied] });
    await pass(10);
    expect(found).toEqual([{ kind: "chain", chain: "ip6 services" }]);
  });

  test("lists nothing while a sync is due", async () => {
    const { fake, found, view, pass } = setUp();
    view.expectation = undefined;
    fake.kernel.ruleset = {};
    await pass(12);
    expect([found, fake.runs]).toEqual([[], []]);
  });

  test.each([
    ["a table", 1],
    ["a chain", 10],
  ])("does not report a change that a sync makes during the poll: %s", async (_what, seconds) => {
    const { fake, found, view, pass } = setUp();
    if (seconds === 1) fake.kernel.ruleset = {};
    else fake.kernel.apply({ nftables: [emptied] });
    fake.before = () => {
      view.expectation = { ruleset };
    };
    await pass(seconds);
    expect(found).toEqual([]);
  });

  test("keeps polling when nft fails", async () => {
    const { fake, found, logger, pass } = setUp();
    fake.broken = "Error: netlink: cache initialization failed";
    await pass(2);
    expect(logger.lines.map(({ level }) => level)).toEqual(["debug", "debug"]);
    fake.broken = undefined;
    fake.kernel.ruleset = {};
    await pass(1);
    expect(found).toEqual([{ kind: "tables", missing: ["ip nft-proxy", "ip6 nft-proxy"] }]);
  });

  test("reports nothing after stop()", async () => {
    const { fake, found, clock, watcher } = setUp();
    fake.kernel.ruleset = {};
    let look: () => void = () => {};
    fake.before = () => new Promise((resolve) => (look = resolve));
    clock.advance(1000);
    while (fake.runs.length === 0) await new Promise((resolve) => setImmediate(resolve));
    watcher.stop();
    look();
    await new Promise((resolve) => setImmediate(resolve));
    expect([found, clock.timers]).toEqual([[], 0]);
  });
});
