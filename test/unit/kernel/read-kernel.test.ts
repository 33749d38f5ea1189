import { describe, expect, test } from "vitest";
import { jsonPieces } from "../../../src/daemon/daemon-socket.ts";
import { actualTables, compareKernel, readKernel } from "../../../src/kernel/read-kernel.ts";
import type { TableReader } from "../../../src/kernel/table-reader.ts";
import { creation, deltaSize, diffRuleset } from "../../../src/nft/delta.ts";
import { removalTransaction, toTransaction } from "../../../src/nft/transaction.ts";
import { daemonTables, rulesetOf } from "../../../src/socket/daemon-protocol.ts";
import { port, renderAll, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { rulesetText } from "../../support/ruleset-text.ts";
import { townRuleset } from "../../support/town-ruleset.ts";

const desired = townRuleset("town");
const after = townRuleset("town-after");

/** nft in front of a kernel that has the town's tables. */
function programmed(): FakeNft {
  const fake = new FakeNft();
  fake.kernel.apply(toTransaction(diffRuleset({}, desired)));
  return fake;
}

describe("readKernel", () => {
  test("reads the existing tables, also if there are none", async () => {
    const kernel = await readKernel(programmed().tables, ["ip", "ip6"]);
    expect(kernel.kind === "read" && rulesetText(kernel.ruleset)).toBe(rulesetText(desired));
    expect(await readKernel(new FakeNft().tables, ["ip", "ip6"])).toEqual({ kind: "read", ruleset: {} });
  });
});

describe("compareKernel", () => {
  test("finds no differences where there are none", async () => {
    expect(await compareKernel(programmed().tables, desired)).toEqual({ kind: "compared", differences: [] });
  });

  test.each<[string, (fake: FakeNft) => void]>([
    [
      "other elements and chains",
      (fake) => fake.kernel.apply(toTransaction(diffRuleset(fake.kernel.ruleset, after))),
    ],
    [
      "a missing table",
      ({ kernel }) => kernel.apply(removalTransaction([{ family: "ip6", name: "nft-proxy" }])),
    ],
    ["missing tables", ({ kernel }) => Object.assign(kernel, { ruleset: {} })],
  ])("finds the same differences as a comparison of whole tables, given %s", async (_what, change) => {
    const fake = programmed();
    change(fake);
    const comparison = await compareKernel(fake.tables, desired);
    const differences = comparison.kind === "compared" ? comparison.differences : [];
    expect(deltaSize(differences)).toEqual(deltaSize(diffRuleset(fake.kernel.ruleset, desired)));
    fake.kernel.apply(toTransaction(differences));
    expect(rulesetText(fake.kernel.ruleset)).toBe(rulesetText(desired));
  });

  test("asks for elements that a listing has missed, and finds those that are really missing", async () => {
    const fake = programmed();
    const [gone = "", missed = ""] = fake.kernel.ruleset.ip?.sets.get("lists")?.elements.keys() ?? [];
    const element = { family: "ip", table: "nft-proxy", name: "lists", elem: [] } as const;
    const elem = [{ concat: gone.split(" . ").map((part) => (/^\d+$/.test(part) ? Number(part) : part)) }];
    fake.kernel.apply({ nftables: [{ delete: { element: { ...element, elem } } }] });
    const asked: string[] = [];
    const reader: TableReader = {
      ...fake.tables,
      async *elements(family, spec, signal) {
        for await (const batch of fake.tables.elements(family, spec, signal))
          yield batch.filter(({ key }) => family !== "ip" || spec.name !== "lists" || key !== missed);
      },
      element: async (family, spec, key) => {
        asked.push(key);
        return await fake.tables.element(family, spec, key);
      },
    };
    const comparison = await compareKernel(reader, desired);
    const differences = comparison.kind === "compared" ? comparison.differences : [];
    expect(differences.flatMap(({ elements }) => elements.flatMap(({ added }) => added))).toEqual([
      { key: gone, value: desired.ip?.sets.get("lists")?.elements.get(gone) },
    ]);
    expect(asked.sort()).toEqual([gone, missed].sort());
  });

  test.each([
    ["range-lists", 1, "cannot be asked for"],
    ["endpoints", 150, "are too many to ask for"],
  ])("dumps %s again if %i missing elements %s, and finds those that both dumps lack", async (set, gone) => {
    const ranges = [8000, 9000].map((first) => ({ first, last: first + 99 }));
    const services = [service({ ports: [port(80, { ranges })] })];
    const endpoints = Array.from({ length: 160 }, (_, index) => `10.244.2.${index + 1}`);
    const { ruleset } = renderAll({ services, slices: [slice({ endpoints })] }).state;
    const fake = new FakeNft();
    fake.kernel.apply(toTransaction(diffRuleset({}, ruleset)));
    const keys = [...(ruleset.ip?.sets.get(set)?.elements.keys() ?? [])];
    const [deleted, hidden] = [new Set(keys.slice(0, gone)), keys.at(-1)];
    let dumps = 0;
    const reader: TableReader = {
      ...fake.tables,
      async *elements(family, spec, signal) {
        const isDamaged = family === "ip" && spec.name === set;
        if (isDamaged) dumps++;
        for await (const batch of fake.tables.elements(family, spec, signal))
          yield batch.filter(
            ({ key }) => !isDamaged || !(deleted.has(key) || (dumps === 1 && key === hidden)),
          );
      },
      element: async (family, spec, key) =>
        deleted.has(key) ? undefined : await fake.tables.element(family, spec, key),
    };
    const comparison = await compareKernel(reader, ruleset);
    const differences = comparison.kind === "compared" ? comparison.differences : [];
    const added = differences.flatMap(({ elements }) => elements.flatMap((one) => one.added));
    expect([dumps, added.map(({ key }) => key)]).toEqual([2, [...deleted].sort()]);
  });

  test("returns the reason if tables cannot be read", async () => {
    const fake = programmed();
    fake.broken = "Error: Could not process rule: Operation not permitted";
    expect(await compareKernel(fake.tables, desired)).toMatchObject({
      kind: "unreadable",
      reason: expect.stringContaining("Operation not permitted"),
    });
  });
});

function asJson<T>(value: T): T {
  return JSON.parse([...jsonPieces(value)].join(""));
}

describe("actualTables", () => {
  test.each<[string, (fake: FakeNft) => void]>([
    [
      "other elements and chains",
      (fake) => fake.kernel.apply(toTransaction(diffRuleset(fake.kernel.ruleset, after))),
    ],
    [
      "a missing table",
      ({ kernel }) => kernel.apply(removalTransaction([{ family: "ip6", name: "nft-proxy" }])),
    ],
    ["no differences", () => {}],
  ])(
    "gives the kernel's tables from the desired ones, as JSON, and the differences, given %s",
    async (_what, change) => {
      const fake = programmed();
      change(fake);
      const comparison = await compareKernel(fake.tables, desired);
      if (comparison.kind === "unreadable") throw new Error(comparison.reason);
      const { tables, differences } = asJson({
        tables: daemonTables(desired),
        differences: comparison.differences,
      });
      const actual = actualTables(rulesetOf(tables), differences);
      expect(actual && rulesetText(actual)).toBe(rulesetText(fake.kernel.ruleset));
    },
  );

  test("has objects with timeouts, unless the kernel lacks them, and flow tables", async () => {
    const services = [service({ connectionTimeouts: { "tcp-established": 60 } })];
    const objects = { services, slices: [slice({ endpoints: ["10.244.2.11"] })] };
    const { ruleset } = renderAll(objects, testNodeContext({ settings: { fastPath: true } })).state;
    const tables = () => asJson(daemonTables(ruleset));
    expect(actualTables(rulesetOf(tables()), [])).toEqual(ruleset);
    const fake = new FakeNft();
    fake.kernel.apply(toTransaction(diffRuleset({}, ruleset)));
    const [name = ""] = ruleset.ip?.timeouts?.keys() ?? [];
    const place = { family: "ip", table: "nft-proxy", name } as const;
    fake.kernel.apply({ nftables: [{ flush: { chain: place } }, { delete: { "ct timeout": place } }] });
    const comparison = await compareKernel(fake.tables, ruleset);
    if (comparison.kind === "unreadable") throw new Error(comparison.reason);
    expect(actualTables(rulesetOf(tables()), comparison.differences)?.ip?.timeouts).toEqual(new Map());
  });

  test("is undefined for a table with other declarations", async () => {
    const fake = programmed();
    const comparison = await compareKernel(fake.tables, desired);
    const found = comparison.kind === "compared" ? comparison.differences : [];
    expect(found).toEqual([]);
    const { ip } = desired;
    if (ip === undefined) throw new Error("no IPv4");
    const recreated = { ...creation(ip, "recreate"), actual: { chains: [], elements: [] } };
    expect(actualTables(desired, [recreated])).toBeUndefined();
  });
});
