import { expect, test } from "vitest";
import { NftRefusedError, NftStoppedError } from "../../../src/kernel/nft-errors.ts";
import type { Command, CommandObject } from "../../../src/nft/ast/json.ts";
import { deltaSize, diffRuleset } from "../../../src/nft/delta.ts";
import { rebuildTransaction } from "../../../src/nft/transaction.ts";
import { fullSync } from "../../../src/sync/full-sync.ts";
import { port, renderAll, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";

const objects = { services: [service()], slices: [slice({ endpoints: ["10.244.2.11", "10.244.2.12"] })] };
const { ruleset } = renderAll(objects).state;
/** With another declaration. */
const resized = renderAll(objects, testNodeContext({ affinityMapSize: 7 })).state.ruleset;

/** The set of each element that commands add or delete. */
const elementsIn = (commands: readonly Command[]) =>
  commands.flatMap((command) =>
    Object.values(command).flatMap((object: CommandObject) =>
      "element" in object ? object.element.elem.map(() => object.element.name) : [],
    ),
  );

function programmed(): FakeNft {
  const fake = new FakeNft();
  fake.kernel.apply(rebuildTransaction(ruleset));
  return fake;
}

test("a full sync creates missing tables in chunks, with the hooks in the last one", async () => {
  const fake = new FakeNft();
  const report = await fullSync(fake.nft, fake.tables, ruleset, { chunkSize: 3 });
  expect(diffRuleset(fake.kernel.ruleset, ruleset)).toEqual([]);
  expect(report.applied.length).toBeGreaterThan(1);
  const hooked = fake.transactions.map((sent) => JSON.stringify(sent).includes('"hook"'));
  expect(hooked.indexOf(true)).toBe(hooked.length - 1);
});

test.each(['"hook"', '"element"', "balance-2"])(
  "a cold start in which %s is refused leaves no tables behind",
  async (text) => {
    const fake = new FakeNft();
    fake.refuses = text;
    await expect(fullSync(fake.nft, fake.tables, ruleset, { chunkSize: 3 })).rejects.toThrow(
      "nft refused the transaction",
    );
    expect(fake.kernel.ruleset).toEqual({});
  },
);

test("a cold start runs three nft, and waits for them before it removes incomplete tables", async () => {
  const fake = new FakeNft();
  const underWay: number[] = [];
  let now = 0;
  fake.before = async (run) => {
    if (run !== "apply") return;
    underWay.push(++now);
    // The first of three chunks is refused while the others are under way.
    for (let turns = fake.count("apply"); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve));
    now--;
  };
  fake.refuses = '"element"';
  await expect(fullSync(fake.nft, fake.tables, ruleset, { chunkSize: 1 })).rejects.toThrow(
    "nft refused the transaction",
  );
  expect(underWay).toEqual([1, 1, 2, 3, 1]);
  expect(fake.kernel.ruleset).toEqual({});
});

test("a full sync sends no transaction if the tables are right", async () => {
  const fake = programmed();
  expect(await fullSync(fake.nft, fake.tables, ruleset)).toEqual({
    deltas: [],
    unreadable: undefined,
    applied: [],
  });
  expect(fake.transactions).toEqual([]);
});

test("a full sync repairs only differences, in one transaction", async () => {
  const fake = programmed();
  const flushed = { family: "ip", table: "nft-proxy", name: "cluster-ips" } as const;
  fake.kernel.apply({ nftables: [{ flush: { set: flushed } }] });
  const report = await fullSync(fake.nft, fake.tables, ruleset);
  expect(deltaSize(report.deltas)).toEqual({ chains: 0, sets: 0, elements: 1 });
  expect(report.applied).toHaveLength(1);
  expect(diffRuleset(fake.kernel.ruleset, ruleset)).toEqual([]);
});

test("a full sync recreates a dormant table, whose chains no packet passes", async () => {
  const fake = programmed();
  const dormant = { add: { table: { family: "ip", name: "nft-proxy", flags: "dormant" } } } as const;
  fake.kernel.apply({ nftables: [dormant] });
  const report = await fullSync(fake.nft, fake.tables, ruleset);
  expect(report.deltas.map(({ family, mode }) => [family, mode])).toEqual([["ip", "recreate"]]);
  expect(fake.kernel.ruleset.ip?.isDormant).toBeUndefined();
  expect(diffRuleset(fake.kernel.ruleset, ruleset)).toEqual([]);
});

test("a full sync repairs many elements in several transactions, what leads to the others last, and takes them out first", async () => {
  const { ruleset: empty } = renderAll({}).state;
  const fake = new FakeNft();
  fake.kernel.apply(rebuildTransaction(empty));
  const sizes = () => fake.transactions.map(({ nftables }) => elementsIn(nftables).length);
  const sets = () => [...new Set(fake.transactions.flatMap(({ nftables }) => elementsIn(nftables)))];
  await fullSync(fake.nft, fake.tables, ruleset, { chunkSize: 2 });
  expect(diffRuleset(fake.kernel.ruleset, ruleset)).toEqual([]);
  expect(Math.max(...sizes())).toBe(2);
  expect(sets().at(-1)).toBe("lists");
  fake.transactions.length = 0;
  await fullSync(fake.nft, fake.tables, empty, { chunkSize: 2 });
  expect(diffRuleset(fake.kernel.ruleset, empty)).toEqual([]);
  expect(Math.max(...sizes())).toBe(2);
  expect(sets()[0]).toBe("lists");
});

/** A Service whose port has ranges of one port each. */
function ranged(count: number, step = 2) {
  const ranges = Array.from({ length: count }, (_, n) => ({ first: 1000 + step * n, last: 1000 + step * n }));
  return { ...objects, services: [service({ ports: [port(80, { ranges })] })] };
}

test.each([
  ["one by one where few go", ranged(150), ranged(110), false],
  ["with the map where many go", ranged(150), ranged(109), true],
  ["one by one where few are replaced", ranged(20), ranged(20, 3), false],
  ["with the map where many are replaced", ranged(21), ranged(21, 3), true],
])("port ranges are deleted %s", async (_, before, after, isAnew) => {
  const fake = new FakeNft();
  fake.kernel.apply(rebuildTransaction(renderAll(before).state.ruleset));
  const desired = renderAll(after).state.ruleset;
  await fullSync(fake.nft, fake.tables, desired);
  expect(diffRuleset(fake.kernel.ruleset, desired)).toEqual([]);
  const text = JSON.stringify(fake.transactions);
  expect(text.includes('{"delete":{"map":{"family":"ip","table":"nft-proxy","name":"range-lists"')).toBe(
    isAnew,
  );
  expect(text.includes('{"delete":{"element"')).toBe(!isAnew);
});

test("packets look into a second map while port ranges are replaced, and only then", async () => {
  const fake = new FakeNft();
  fake.kernel.apply(rebuildTransaction(renderAll(ranged(10)).state.ruleset));
  const desired = renderAll(ranged(10, 3)).state.ruleset;
  const looksTwice: boolean[] = [];
  fake.before = (run) => {
    if (run === "apply")
      looksTwice.push(JSON.stringify([...(fake.kernel.ruleset.ip?.chains ?? [])]).includes("handover"));
  };
  await fullSync(fake.nft, fake.tables, desired);
  expect(looksTwice).toEqual([false, true, true]);
  expect(diffRuleset(fake.kernel.ruleset, desired)).toEqual([]);
});

test.each([
  ["", false],
  [", also if it needs another one and changes the chains that look into it first", true],
])("the next full sync deletes a second map that was left behind%s", async (_, resetVanished) => {
  const fake = new FakeNft();
  fake.kernel.apply(rebuildTransaction(renderAll(ranged(150)).state.ruleset));
  fake.refuses = '{"delete":{"map"';
  const desired = renderAll(ranged(1)).state.ruleset;
  await expect(fullSync(fake.nft, fake.tables, desired)).rejects.toThrow("nft refused the transaction");
  expect(fake.kernel.ruleset.ip?.sets.has("range-lists-handover")).toBe(true);
  fake.refuses = undefined;
  const next = resetVanished
    ? renderAll(ranged(2), testNodeContext({ resetVanished })).state.ruleset
    : desired;
  await fullSync(fake.nft, fake.tables, next);
  expect(diffRuleset(fake.kernel.ruleset, next)).toEqual([]);
});

test("a full sync changes the rules of chains and many elements in one transaction, after new chains", async () => {
  const fake = new FakeNft();
  fake.kernel.apply(
    rebuildTransaction(renderAll({}, testNodeContext({ masqueradeAll: true })).state.ruleset),
  );
  await fullSync(fake.nft, fake.tables, ruleset, { chunkSize: 2 });
  const [chains = [], others = [], ...more] = fake.transactions.map(({ nftables }) =>
    JSON.stringify(nftables),
  );
  expect(chains).toContain("balance-");
  expect(chains).not.toContain('"element"');
  expect(chains).not.toContain("nat-prerouting");
  expect(others).toContain('"element"');
  expect(more).toEqual([]);
  expect(diffRuleset(fake.kernel.ruleset, ruleset)).toEqual([]);
});

test("a full sync changes elements in one transaction if they lead to no new chain", async () => {
  const fake = programmed();
  const [, ...slices] = objects.slices ?? [];
  const fewer = renderAll({ ...objects, slices }).state.ruleset;
  await fullSync(fake.nft, fake.tables, fewer);
  expect(fake.transactions).toHaveLength(1);
  expect(diffRuleset(fake.kernel.ruleset, fewer)).toEqual([]);
});

test("a full sync recreates tables with other declarations", async () => {
  const fake = programmed();
  const report = await fullSync(fake.nft, fake.tables, resized);
  expect(report.deltas.map(({ mode }) => mode)).toEqual(["recreate", "recreate"]);
  expect(diffRuleset(fake.kernel.ruleset, resized)).toEqual([]);
});

test("tables that are made anew translate once more behind the chains whose place they take, until they are in force", async () => {
  const fake = programmed();
  const natChains: (readonly [string, number, string])[][] = [];
  fake.before = (run) => {
    const chains = [...(fake.kernel.ruleset.ip?.chains.values() ?? [])].filter(
      ({ base }) => base?.type === "nat",
    );
    if (run === "apply") {
      natChains.push(chains.map(({ name, base, rules }) => [name, base?.prio ?? 0, JSON.stringify(rules)]));
    }
  };
  expect((await fullSync(fake.nft, fake.tables, resized)).applied).toHaveLength(2);
  const [before = [], during = []] = natChains;
  expect(before.map(([name, priority]) => `${name} ${priority}`)).toEqual([
    "nat-prerouting -100",
    "nat-output -100",
    "nat-postrouting 100",
  ]);
  expect(during).toEqual([
    ...before,
    ...before.map(([name, priority, rules]) => [`${name}-handover`, priority + 1, rules]),
  ]);
});

test("the next full sync ends an interrupted handover", async () => {
  const fake = programmed();
  fake.before = (run) => {
    fake.refuses = run === "apply" && fake.count("apply") > 1 ? "nat-prerouting-handover" : undefined;
  };
  await expect(fullSync(fake.nft, fake.tables, resized)).rejects.toThrow(NftRefusedError);
  fake.before = () => {};
  fake.refuses = undefined;
  await fullSync(fake.nft, fake.tables, resized);
  expect(diffRuleset(fake.kernel.ruleset, resized)).toEqual([]);
});

test("a full sync whose listings are stopped sends nothing, not even without the affinity that it would carry over", async () => {
  const whole = programmed();
  let listings = 0;
  whole.before = (run) => {
    if (run === "apply") listings ||= whole.count("list");
  };
  await fullSync(whole.nft, whole.tables, resized);
  for (let stopAt = 1; stopAt < listings; stopAt++) {
    const fake = programmed();
    fake.before = () => {
      if (fake.count("list") === stopAt) fake.nft.stopReading();
    };
    await expect(fullSync(fake.nft, fake.tables, resized)).rejects.toThrow(NftStoppedError);
    expect(fake.transactions).toEqual([]);
  }
});

test("a full sync rebuilds unreadable tables, and reports the reason", async () => {
  const fake = programmed();
  let listings = 0;
  fake.before = (run) => {
    fake.broken = run === "list" && listings++ === 0 ? "Error: cannot parse a foreign rule" : undefined;
  };
  const report = await fullSync(fake.nft, fake.tables, ruleset);
  expect(report.unreadable).toContain("cannot parse a foreign rule");
  expect([report.deltas, report.applied.length]).toEqual([[], 1]);
  expect(diffRuleset(fake.kernel.ruleset, ruleset)).toEqual([]);
});

test("a full sync rebuilds nothing if nft hangs during a listing", async () => {
  const fake = programmed();
  const sent = fake.transactions.length;
  fake.before = (run) => {
    fake.timesOut = run === "list";
  };
  await expect(fullSync(fake.nft, fake.tables, ruleset)).rejects.toMatchObject({ code: "NFT_TIMEOUT" });
  expect(fake.transactions).toHaveLength(sent);
});
