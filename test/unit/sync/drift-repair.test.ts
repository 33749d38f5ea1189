import { describe, expect, test } from "vitest";
import type { TableDelta } from "../../../src/nft/delta.ts";
import { onlyElements } from "../../../src/nft/transaction.ts";
import { DriftRepair } from "../../../src/sync/drift-repair.ts";
import type { Commit } from "../../../src/sync/kernel-watch.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import { cacheOf, port, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

const AUTHOR = "other (process 99)";
const EXTRA = "add element ip nft-proxy cluster-ips { 192.0.2.1 }";
const RULE = "delete rule ip nft-proxy services handle 7";
const OWN: Commit = { lines: ["add element ip nft-proxy cluster-ips { 10.96.0.10 }"], author: "nft (process 1)" };

/** Of one chain, as a comparison would find it. */
const CHAIN: TableDelta = {
  ...onlyElements({ family: "ip", table: "nft-proxy" }, []),
  writtenChains: [{ name: "services", rules: [] }],
};

async function setUp() {
  const cache = cacheOf({
    services: [service({ ports: [port(80)] })],
    slices: [slice({ endpoints: ["10.244.2.11"] })],
  });
  const reconciler = new Reconciler({ cache, nft: new FakeNft().nft });
  await reconciler.sync({ nodeContext: testNodeContext(), services: cache.takeDirty() });
  const clock = new ManualClock();
  const logger = memoryLogger();
  const asked: string[] = [];
  const kernel = {
    commits: [] as readonly Commit[] | undefined,
    /** What a comparison finds. */
    found: [CHAIN] as readonly TableDelta[] | undefined,
  };
  const repair = new DriftRepair({
    clock,
    logger,
    reconciler,
    loop: {
      requestFullSync: (reason) => asked.push(`full sync: ${reason}`),
      requestRepair: (found, reason) =>
        asked.push([...found.flatMap(inWords), ...(reason === undefined ? [] : [reason])].join(", ") || "nothing"),
    },
    verifier: {
      recheck: async (scope, isUrgent) => {
        asked.push(`compare ${scope}${isUrgent ? "" : " when syncs allow it"}`);
        await turn();
        return kernel.found;
      },
    },
    watch: {
      get recentCommits() {
        return kernel.commits;
      },
    },
  });
  const foreign = async (...lines: readonly string[]) => {
    kernel.commits = [OWN, { lines, author: AUTHOR }, OWN];
    await repair.foreign({ author: OWN.author, deletedTables: [] });
  };
  return { repair, clock, logger, asked, kernel, foreign };
}

function inWords({ mode, family, writtenChains, elements }: TableDelta): string[] {
  if (mode === "create") return [`make ${family}`];
  const keys = elements.flatMap(({ deleted, added }) => [
    ...deleted.map((key) => `- ${key}`),
    ...added.map(({ key }) => `+ ${key}`),
  ]);
  return [...writtenChains.map(({ name }) => `write ${name}`), ...keys];
}

describe("DriftRepair", () => {
  test("repairs elements that a commit of somebody else touched, without reading the kernel, and names who it was", async () => {
    const { foreign, asked, logger, repair, clock } = await setUp();
    await foreign(EXTRA, "delete element ip nft-proxy cluster-ips { 10.96.0.10 }");
    expect(asked, "ours came after it").toEqual(["- 192.0.2.1"]);
    expect(repair.author).toBe("other");
    clock.advance(30_000);
    expect(repair.author).toBeUndefined();
    expect(logger.lines).toEqual([
      { level: "warn", fields: { by: AUTHOR }, message: "rules changed by someone else: repairing" },
    ]);
  });

  test("does nothing about commits that left everything as it should be", async () => {
    const { foreign, asked, logger } = await setUp();
    await foreign(EXTRA, "delete element ip nft-proxy cluster-ips { 192.0.2.1 }");
    expect([asked, logger.lines]).toEqual([[], []]);
  });

  test("compares chains and declarations where a commit touched such, and once for commits that come meanwhile", async () => {
    const { foreign, asked } = await setUp();
    const [first, second, third] = [foreign(RULE, EXTRA), foreign(RULE, EXTRA), foreign(RULE, EXTRA)];
    await Promise.all([first, second, third]);
    const once = ["compare declarations", "write services, - 192.0.2.1"];
    expect(asked).toEqual([...once, ...once]);
  });

  test("compares everything where commits are not known or not understood, and has a full sync do it where that fails", async () => {
    const { foreign, repair, asked, kernel } = await setUp();
    await foreign("add element ip nft-proxy cluster-ips { 192.0.2.1-192.0.2.9 . x }");
    kernel.commits = undefined;
    await repair.foreign({ author: AUTHOR, deletedTables: [] });
    expect(asked.splice(0)).toEqual(["compare everything", "write services", "compare everything", "write services"]);
    kernel.found = undefined;
    await repair.foreign({ author: AUTHOR, deletedTables: [] });
    await foreign(RULE);
    expect(asked).toEqual([
      "compare everything",
      "full sync: drift",
      "compare declarations",
      "compare everything",
      "full sync: drift",
    ]);
  });

  test("compares everything when syncs allow it where nothing is known to be wrong", async () => {
    const { repair, asked } = await setUp();
    await repair.compareAll("periodic");
    expect(asked).toEqual(["compare everything when syncs allow it", "write services, periodic"]);
  });

  test("has deleted tables made at once", async () => {
    const { repair, asked, logger } = await setUp();
    await repair.foreign({ author: AUTHOR, deletedTables: ["ip nft-proxy", "ip6 nft-proxy"] });
    expect(asked).toEqual(["make ip, make ip6"]);
    expect(logger.lines.map(({ message }) => message)).toEqual(["tables missing: rebuilding"]);
  });

  test("repairs differences that a comparison found, and what polling saw", async () => {
    const { repair, asked } = await setUp();
    repair.drifted({ kind: "differences", found: [CHAIN], scope: "everything" });
    repair.drifted({ kind: "differences", found: [CHAIN], scope: "declarations" });
    repair.drifted({ kind: "unreadable", reason: "text that is not JSON" });
    expect(asked).toEqual(["write services, drift", "write services", "full sync: drift"]);
  });

  test("repairs at once five times, then with longer pauses, after which it compares everything", async () => {
    const { foreign, asked, clock } = await setUp();
    const rounds: number[] = [];
    for (let seconds = 0; seconds < 120; seconds++) {
      await foreign(EXTRA);
      if (asked.splice(0).length > 0) rounds.push(seconds);
      clock.advance(1000);
      await turn();
      await turn();
      if (asked.splice(0).includes("compare everything")) rounds.push(seconds + 1);
    }
    expect(rounds).toEqual([0, 1, 2, 3, 4, 6, 8, 12, 20, 36, 66, 96]);
  });

  test("makes no repair any more after stop()", async () => {
    const { foreign, repair, asked, clock } = await setUp();
    for (let n = 0; n < 7; n++) await foreign(EXTRA);
    asked.splice(0);
    repair.stop();
    clock.advance(60_000);
    await turn();
    expect(asked).toEqual([]);
  });
});
