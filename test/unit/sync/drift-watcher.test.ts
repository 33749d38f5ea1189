import { describe, expect, test } from "vitest";
import type { ComparisonScope } from "../../../src/kernel/read-kernel.ts";
import type { Ruleset } from "../../../src/nft/ast/ruleset.ts";
import type { TableDelta } from "../../../src/nft/delta.ts";
import { onlyElements, rebuildTransaction, removalTransaction } from "../../../src/nft/transaction.ts";
import { type Drift, DriftWatcher } from "../../../src/sync/drift-watcher.ts";
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
  const view: { given: Ruleset | undefined; found: readonly TableDelta[] | undefined } = { given: ruleset, found: [] };
  const scopes: ComparisonScope[] = [];
  const watcher = new DriftWatcher({
    nft: fake.nft,
    verifier: {
      recheck: async (scope) => {
        scopes.push(scope);
        return view.found;
      },
    },
    clock,
    logger,
    given: () => view.given,
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
  return { fake, clock, logger, found, view, scopes, watcher, pass };
}

const EMPTIED = onlyElements({ family: "ip6", table: "nft-proxy" }, []);

describe("DriftWatcher", () => {
  test("reports nothing while the tables are right", async () => {
    const { found, pass, fake, scopes } = setUp();
    await pass(21);
    expect(found).toEqual([]);
    expect(fake.count("list"), "tables each second").toBe(21);
    expect(scopes, "chains every ten").toEqual(["declarations", "declarations"]);
  });

  test("reports a missing table at the next poll", async () => {
    const { fake, found, pass } = setUp();
    fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    await pass(1);
    expect(found).toEqual([{ kind: "tables", missing: ["ip nft-proxy"] }]);
  });

  test("reports what differs in chains within ten seconds", async () => {
    const { found, view, pass } = setUp();
    view.found = [EMPTIED];
    await pass(10);
    expect(found).toEqual([{ kind: "differences", found: [EMPTIED], scope: "declarations" }]);
  });

  test("leaves what is not understood in chains to the verification", async () => {
    const { found, view, pass } = setUp();
    view.found = undefined;
    await pass(20);
    expect(found).toEqual([]);
  });

  test("goes on looking at chains when the wall clock is set back", async () => {
    const { clock, scopes, pass } = setUp();
    await pass(10);
    clock.set(-3_600_000);
    await pass(10);
    expect(scopes).toHaveLength(2);
  });

  test("lists nothing while a repair is due", async () => {
    const { fake, found, view, pass } = setUp();
    view.given = undefined;
    fake.kernel.ruleset = {};
    await pass(12);
    expect([found, fake.runs]).toEqual([[], []]);
  });

  test("does not report tables whose repair a sync asked for during the poll", async () => {
    const { fake, found, view, pass } = setUp();
    fake.kernel.ruleset = {};
    fake.before = () => {
      view.given = undefined;
    };
    await pass(1);
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
