import { expect, test } from "vitest";
import { costlyTables, costlyTablesAdvice } from "../../../src/kernel/others-sets.ts";

/** An nft that takes these milliseconds, in turn, to read the sets of each table. */
function nftOf(times: Readonly<Record<string, readonly number[]>>) {
  const left = new Map(Object.entries(times).map(([table, list]) => [table, [...list]]));
  return {
    tableNames: async () => new Set(left.keys()),
    setsReadingTime: async (table: string) => left.get(table)?.shift() ?? 4,
  };
}

test("tables of other software are costly by the shortest of three readings, beyond what nft takes in any case", async () => {
  const nft = nftOf({
    "ip nft-proxy": [90, 80, 70],
    "ip filter": [50, 4, 60],
    "ip kube-proxy": [40, 90, 27],
    "inet big": [104, 105, 110],
  });
  expect(await costlyTables(nft)).toEqual([
    { table: "inet big", ms: 100 },
    { table: "ip kube-proxy", ms: 23 },
  ]);
});

test("without tables, none is costly", async () => {
  expect(await costlyTables(nftOf({}))).toEqual([]);
});

test("the advice names the command for kube-proxy's tables where these are among the costly ones", () => {
  const table = (name: string) => ({ table: name, ms: 20 });
  expect(costlyTablesAdvice([table("inet big"), table("ip6 kube-proxy")])).toContain("cleanup --kube-proxy");
  expect(costlyTablesAdvice([table("inet kube-proxy-x")])).not.toContain("cleanup");
});
