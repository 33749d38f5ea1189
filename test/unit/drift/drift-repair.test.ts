import { endianness } from "node:os";
import { describe, expect, test } from "vitest";
import { DriftRepair } from "../../../src/drift/drift-repair.ts";
import type { Commit, TableMessage } from "../../../src/drift/kernel-events.ts";
import type { ComparisonScope } from "../../../src/kernel/read-kernel.ts";
import { onlyElements, type TableDelta } from "../../../src/nft/delta.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import { cacheOf, port, service, slice, testNodeContext } from "../../support/build.ts";
import { encodedElement } from "../../support/encoded-elements.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A message about an address in the set of ClusterIPs. */
function clusterIP(op: "new" | "delete", address: string): TableMessage {
  const spec = { name: "cluster-ips", key: ["ipv4_addr"], dynamic: false, counter: false } as const;
  const element = encodedElement(spec, address, "", endianness());
  return {
    kind: "elements",
    op,
    portId: 1,
    family: "ip",
    table: "nft-proxy",
    name: spec.name,
    elements: [element],
  };
}

const AUTHOR = "other (process 99)";
const EXTRA = clusterIP("new", "192.0.2.1");
const RULE = {
  kind: "rule",
  op: "delete",
  portId: 1,
  family: "ip",
  table: "nft-proxy",
  name: "services",
  elements: [],
} as const;
const deleted = (family: "ip" | "ip6"): TableMessage => {
  return {
    kind: "table",
    op: "delete",
    portId: 1,
    family,
    table: "nft-proxy",
    name: "nft-proxy",
    elements: [],
  };
};
const STRANGE: TableMessage = {
  ...EXTRA,
  elements: [{ key: "long", isEnd: true, value: "x" }],
};
const OWN: Commit = {
  messages: [clusterIP("new", "10.96.0.10")],
  author: "nft (process 1)",
  isForeign: false,
};

/** Of one chain, as a comparison would find it. */
const CHAIN: TableDelta = {
  ...onlyElements({ family: "ip", table: "nft-proxy" }, []),
  objects: [{ kind: "chain", name: "services", after: { name: "services", rules: [] } }],
};

/** The report of a sync that repaired something. */
const REPAIRED = (durationMs: number) => ({
  repaired: { kind: "element" as const, differences: 1, text: "1 element differed" },
  durationMs,
});

async function setUp() {
  const cache = cacheOf({
    services: [service({ ports: [port(80)] })],
    slices: [slice({ endpoints: ["10.244.2.11"] })],
  });
  const fake = new FakeNft();
  const reconciler = new Reconciler({ cache, nft: fake.nft, tables: fake.tables });
  await reconciler.sync({ nodeContext: testNodeContext(), services: cache.takeDirty() });
  const clock = new ManualClock();
  const logger = memoryLogger();
  const asked: string[] = [];
  /** The sync that is under way, or the last one. */
  let syncing: Promise<unknown> = Promise.resolve();
  const sync = () => {
    syncing = reconciler.sync({ nodeContext: testNodeContext(), services: cache.takeDirty() });
  };
  const kernel = {
    /** What a comparison finds. */
    found: [CHAIN] as readonly TableDelta[] | undefined,
    /** Called while a comparison is under way. */
    meanwhile: () => {},
  };
  const repair = new DriftRepair({
    clock,
    logger,
    reconciler,
    loop: {
      idle: async () => {
        await syncing;
      },
      requestFullSync: (reason) => asked.push(`full sync: ${reason}`),
      requestRepair: (found, { comparisonReason, comparisonMs = 0, author } = {}) => {
        const took = comparisonMs > 0 ? `in ${comparisonMs} ms` : undefined;
        const why = [comparisonReason, took, author === undefined ? undefined : `by ${author}`].filter(
          (one) => one !== undefined,
        );
        asked.push([...found.flatMap(inWords), ...why].join(", ") || "nothing");
      },
    },
    verifier: {
      recheck: async (scope: ComparisonScope) => {
        asked.push(`compare ${scope}`);
        await turn();
        kernel.meanwhile();
        return kernel.found;
      },
    },
  });
  const foreign = async (...messages: readonly TableMessage[]) => {
    const looking = repair.committed({ messages, author: AUTHOR, isForeign: true });
    void repair.committed(OWN);
    await looking;
  };
  return { repair, clock, logger, asked, kernel, foreign, cache, fake, sync };
}

function inWords({ mode, family, objects, elements }: TableDelta): string[] {
  if (mode === "create") return [`make ${family}`];
  const keys = elements.flatMap(({ deleted, added }) => [
    ...deleted.map(({ key }) => `- ${key}`),
    ...added.map(({ key }) => `+ ${key}`),
  ]);
  return [...objects.map(({ name }) => `write ${name}`), ...keys];
}

describe("DriftRepair", () => {
  test("repairs elements of a foreign commit without reading the kernel, and names its author", async () => {
    const { repair, asked, logger } = await setUp();
    const messages = [EXTRA, clusterIP("delete", "10.96.0.10")];
    await repair.committed({ messages, author: AUTHOR, isForeign: true });
    expect(asked, "without the process, Events of several are one").toEqual([
      "- 192.0.2.1, + 10.96.0.10, by other",
    ]);
    expect(logger.lines).toEqual([
      { level: "warn", fields: { by: AUTHOR }, message: "another program changed the rules: repairing" },
    ]);
  });

  test("makes no repair after commits without an effect", async () => {
    const { foreign, asked, logger } = await setUp();
    await foreign(EXTRA, clusterIP("delete", "192.0.2.1"));
    expect([asked, logger.lines]).toEqual([[], []]);
  });

  test("compares chains and declarations after a commit that touched them, once for all commits that arrive meanwhile", async () => {
    const { foreign, asked, kernel } = await setUp();
    kernel.meanwhile = () => {
      kernel.meanwhile = () => {};
      for (let others = 0; others < 2; others++) void foreign(RULE, EXTRA);
    };
    await foreign(RULE, EXTRA);
    expect(asked).toEqual([
      "compare declarations",
      "write services, - 192.0.2.1, by other",
      "compare declarations",
      "write services, by other",
    ]);
  });

  test("includes commits that arrive while chains are compared", async () => {
    const { foreign, repair, asked, kernel } = await setUp();
    kernel.meanwhile = () => {
      void repair.committed({ ...OWN, messages: [clusterIP("delete", "192.0.2.1")] });
    };
    await foreign(RULE, EXTRA);
    expect(asked).toEqual(["compare declarations", "write services, by other"]);
  });

  test("examines a commit however long the comparison of chains took", async () => {
    const { foreign, asked, kernel, clock } = await setUp();
    kernel.meanwhile = () => clock.advance(60_000);
    await foreign(RULE, EXTRA);
    expect(asked).toEqual(["compare declarations", "write services, - 192.0.2.1, by other"]);
  });

  test.each([
    ["elements", clusterIP("delete", "10.96.0.99"), ["+ 10.96.0.99, by other"]],
    ["chains", RULE, ["compare declarations", "write services, by other"]],
  ])(
    "repairs %s that a foreign commit changed after a commit of the sync that is under way",
    async (_, message, repaired) => {
      const { foreign, asked, cache, fake, sync } = await setUp();
      let end = () => {};
      fake.before = () =>
        new Promise((resolve) => {
          end = resolve;
        });
      cache.putService(service({ name: "late", clusterIPs: ["10.96.0.99"] }));
      sync();
      await turn();
      const looking = foreign(message);
      await turn();
      expect(asked).toEqual([]);
      end();
      await looking;
      expect(asked).toEqual(repaired);
    },
  );

  test("compares everything if a commit is not understood, by a full sync if that fails", async () => {
    const { foreign, asked, kernel } = await setUp();
    await foreign(STRANGE);
    expect(asked.splice(0)).toEqual(["compare everything", "write services, by other"]);
    kernel.found = undefined;
    await foreign(STRANGE);
    await foreign(RULE);
    expect(asked).toEqual([
      "compare everything",
      "full sync: drift",
      "compare declarations",
      "compare everything",
      "full sync: drift",
    ]);
  });

  test("compares everything on request, without a known difference", async () => {
    const { repair, asked, kernel } = await setUp();
    await repair.fullResync("periodic");
    expect(asked.splice(0)).toEqual(["compare everything", "write services, periodic"]);
    kernel.found = undefined;
    await repair.fullResync("periodic");
    expect(asked).toEqual(["compare everything", "full sync: periodic"]);
  });

  test("recreates deleted tables at once", async () => {
    const { repair, asked, logger } = await setUp();
    await repair.committed({ messages: [deleted("ip"), deleted("ip6")], author: AUTHOR, isForeign: true });
    expect(asked).toEqual(["make ip, make ip6, by other"]);
    expect(logger.lines[0]).toMatchObject({
      fields: { tables: ["ip nft-proxy", "ip6 nft-proxy"], by: AUTHOR },
      message: "tables missing: rebuilding",
    });
  });

  test("recreates a deleted table, and repairs what the same commit changed in the other", async () => {
    const { foreign, asked } = await setUp();
    await foreign({ ...RULE, family: "ip6" }, deleted("ip6"), EXTRA);
    expect(asked).toEqual(["make ip6, by other", "- 192.0.2.1, by other"]);
  });

  test("repairs differences that a comparison found, without an author", async () => {
    const { repair, asked } = await setUp();
    repair.foundDifferences([CHAIN]);
    repair.foundUnreadable("text that is not JSON");
    expect(asked).toEqual(["write services, drift", "full sync: drift"]);
  });

  test.each([
    ["short repairs always at once", 100, Array.from({ length: 30 }, (_, second) => second)],
    ["long repairs after pauses of nine times their duration, beyond 2 s", 1000, [0, 7, 16, 25]],
  ])("makes %s, and compares everything after a pause", async (_what, durationMs, expected) => {
    const { foreign, repair, asked, clock } = await setUp();
    const rounds: number[] = [];
    const repaired = (second: number) => {
      const all = asked.splice(0);
      if (!all.some((one) => one.startsWith("-") || one.startsWith("write"))) return;
      rounds.push(second);
      repair.synced(REPAIRED(durationMs));
    };
    for (let second = 0; second < 30; second++) {
      await foreign(EXTRA);
      repaired(second);
      clock.advance(1000);
      await turn();
      await turn();
      repaired(second + 1);
    }
    expect(rounds).toEqual(expected);
  });

  test("waits at most a second while tables are missing", async () => {
    const { repair, asked, clock } = await setUp();
    repair.synced(REPAIRED(60_000));
    void repair.committed({ messages: [deleted("ip")], author: AUTHOR, isForeign: true });
    clock.advance(999);
    await turn();
    expect(asked).toEqual([]);
    clock.advance(1);
    await turn();
    expect(asked).toContain("compare everything");
  });

  test("is not delayed by syncs that repaired nothing", async () => {
    const { foreign, repair, asked } = await setUp();
    repair.synced({ repaired: undefined, durationMs: 60_000 });
    await foreign(EXTRA);
    expect(asked).not.toEqual([]);
  });

  test("leaves a periodic comparison to a delayed repair", async () => {
    const { foreign, repair, asked, clock } = await setUp();
    repair.synced(REPAIRED(3000 / 9));
    await foreign(EXTRA);
    asked.splice(0);
    await repair.fullResync("periodic");
    expect(asked).toEqual([]);
    clock.advance(1000);
    await turn();
    await turn();
    expect(asked).toEqual(["compare everything", "write services, drift"]);
    await repair.fullResync("periodic");
    expect(asked).toHaveLength(4);
  });

  test("repairs nothing after stop()", async () => {
    const { foreign, repair, asked, clock } = await setUp();
    repair.synced(REPAIRED(60_000));
    await foreign(EXTRA);
    asked.splice(0);
    repair.stop();
    clock.advance(60_000);
    await turn();
    expect(asked).toEqual([]);
  });
});

test("passes the duration of a comparison on to the repair", async () => {
  const { repair, kernel, clock, asked } = await setUp();
  kernel.found = [];
  kernel.meanwhile = () => clock.advance(300);
  await repair.fullResync("periodic");
  expect(asked).toEqual(["compare everything", "periodic, in 300 ms"]);
});
