import { describe, expect, test } from "vitest";
import { TableWatcher } from "../../../src/drift/table-watcher.ts";
import type { Ruleset } from "../../../src/nft/ast/ruleset.ts";
import { rebuildTransaction, removalTransaction } from "../../../src/nft/transaction.ts";
import { renderAll, service } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const { ruleset } = renderAll({ services: [service()] }).state;
const turn = () => new Promise((resolve) => setImmediate(resolve));

function setUp() {
  const fake = new FakeNft();
  fake.kernel.apply(rebuildTransaction(ruleset));
  const clock = new ManualClock();
  const logger = memoryLogger();
  const missing: (readonly string[])[] = [];
  const view: { given: Ruleset | undefined; hasNotifications: boolean } = {
    given: ruleset,
    hasNotifications: false,
  };
  const watcher = new TableWatcher({
    nft: fake.nft,
    clock,
    logger,
    hasNotifications: () => view.hasNotifications,
    given: () => view.given,
    onMissing: (names) => missing.push(names),
  });
  watcher.start();
  const pass = async (seconds: number) => {
    for (let n = 0; n < seconds; n++) {
      clock.advance(1000);
      // The next look is due when this one has ended.
      while (clock.timers === 0) await turn();
    }
  };
  return { fake, clock, logger, missing, view, watcher, pass };
}

describe("TableWatcher", () => {
  test("reports nothing while the tables exist, and lists them each second", async () => {
    const { missing, pass, fake } = setUp();
    await pass(5);
    expect([missing, fake.count("list")]).toEqual([[], 5]);
  });

  test("reports a missing table at the next look", async () => {
    const { fake, missing, pass } = setUp();
    fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    await pass(1);
    expect(missing).toEqual([["ip nft-proxy"]]);
  });

  test("lists nothing while the kernel reports changes, and lists again when it does not", async () => {
    const { fake, missing, view, pass } = setUp();
    view.hasNotifications = true;
    fake.kernel.ruleset = {};
    await pass(5);
    expect([missing, fake.runs]).toEqual([[], []]);
    view.hasNotifications = false;
    await pass(1);
    expect(missing).toEqual([["ip nft-proxy", "ip6 nft-proxy"]]);
  });

  test("continues when the wall clock is set back", async () => {
    const { clock, fake, pass } = setUp();
    await pass(1);
    clock.set(-3_600_000);
    await pass(1);
    expect(fake.count("list")).toBe(2);
  });

  test("lists nothing while a repair is due", async () => {
    const { fake, missing, view, pass } = setUp();
    view.given = undefined;
    fake.kernel.ruleset = {};
    await pass(3);
    expect([missing, fake.runs]).toEqual([[], []]);
  });

  test("does not report tables whose repair was requested during the listing", async () => {
    const { fake, missing, view, pass } = setUp();
    fake.kernel.ruleset = {};
    fake.before = () => {
      view.given = undefined;
    };
    await pass(1);
    expect([fake.runs.length, missing]).toEqual([1, []]);
  });

  test("keeps looking when nft fails", async () => {
    const { fake, missing, logger, pass } = setUp();
    fake.broken = "Error: netlink: cache initialization failed";
    await pass(2);
    expect(logger.lines.map(({ level }) => level)).toEqual(["debug", "debug"]);
    fake.broken = undefined;
    fake.kernel.ruleset = {};
    await pass(1);
    expect(missing).toEqual([["ip nft-proxy", "ip6 nft-proxy"]]);
  });

  test("reports nothing after stop()", async () => {
    const { fake, missing, clock, watcher } = setUp();
    fake.kernel.ruleset = {};
    let look: () => void = () => {};
    fake.before = () => new Promise((resolve) => (look = resolve));
    clock.advance(1000);
    while (fake.runs.length === 0) await turn();
    watcher.stop();
    look();
    await turn();
    expect([missing, clock.timers]).toEqual([[], 0]);
  });
});
