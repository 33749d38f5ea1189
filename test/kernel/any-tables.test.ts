import { readFileSync } from "node:fs";
import { execa } from "execa";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AnyTable } from "../../src/nft/ast/any-table.ts";
import { anyTables } from "../../src/nft/canonical/any-tables.ts";
import { debianNft } from "../support/debian-program.ts";
import { probeOutcomes } from "../support/expect.ts";
import { loadScenario } from "../support/lab/scenario.ts";

const { probes, expect: recorded } = await loadScenario("town");

const flush = () => execa("nft", ["flush", "ruleset"]);
beforeEach(flush);
afterEach(flush);

function fixture(path: string): string {
  return readFileSync(new URL(`../fixtures/${path}`, import.meta.url), "utf8");
}

async function listed(nft: string, tables: readonly string[]): Promise<AnyTable[]> {
  const listings = await Promise.all(
    tables.map((table) =>
      execa(nft, ["-j", "list", "table", ...table.split(" ")], { maxBuffer: 100_000_000 }),
    ),
  );
  return listings.flatMap(({ stdout }) => anyTables(stdout));
}

const VERSIONS: readonly (readonly [string, () => string])[] = [
  ["the nft of these tests", () => "nft"],
  ["the newest nft", () => debianNft("sid")],
];

test.each(VERSIONS)(
  "the evaluator predicts all recorded outcomes from kube-proxy's tables, as listed by %s",
  async (_, program) => {
    await execa("nft", ["-f", "-"], { input: fixture("kube-proxy/town.nft") });
    const tables = await listed(program(), ["ip kube-proxy", "ip6 kube-proxy"]);
    const wrong = probes.filter((probe) => {
      const outcomes = probeOutcomes(tables, probe);
      return outcomes.some((outcome) => JSON.stringify(outcome) !== JSON.stringify(recorded[probe.id]));
    });
    expect(wrong.map(({ id }) => id)).toEqual([]);
  },
);

test.each([
  ["nftables-conf", ["inet filter"]],
  ["firewalld", ["inet firewalld"]],
  ["docker", ["ip filter", "ip nat"]],
  ["calico", ["ip calico"]],
])(
  "the tables of %s are parsed alike from the listings of the tests' nft and of the newest one",
  async (name, tables) => {
    await execa("nft", ["-f", "-"], { input: fixture(`other-tables/${name}.nft`) });
    const newest = await listed(debianNft("sid"), tables);
    const flags = (key: string, value: unknown) => (key === "flags" || key === "counter" ? undefined : value);
    const plain = (table: AnyTable) =>
      [...table.chains.values()].map((chain) => JSON.parse(JSON.stringify(chain, flags)) as unknown);
    expect(newest.map(plain)).toEqual((await listed("nft", tables)).map(plain));
    expect(newest.flatMap(({ chains }) => [...chains.values()].flatMap(({ rules }) => rules))).not.toEqual(
      [],
    );
  },
);
