import { expect, test } from "vitest";
import { costlyTables, costlyTablesAdvice } from "../../../src/kernel/others-sets.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { stubNft } from "../../support/stub-nft.ts";

/** The costly tables of a host whose nft takes these milliseconds, in turn, to read the sets of each table. */
async function costlyAmong(times: Readonly<Record<string, readonly number[]>>) {
  const clock = new ManualClock();
  const left = new Map(Object.entries(times).map(([table, list]) => [table, [...list]]));
  const names = [...left.keys()].map((text) => text.split(" "));
  const nft = stubNft({
    async list(_args, { input } = {}) {
      if (input === undefined)
        return JSON.stringify({ nftables: names.map(([family, name]) => ({ table: { family, name } })) });
      const { counters } = JSON.parse(input).nftables.at(-1).list;
      clock.advance(left.get(`${counters.family} ${counters.table}`)?.shift() ?? 4);
      return "";
    },
  });
  return await costlyTables(nft, clock);
}

test("tables of other software are costly by the shortest of three readings, beyond what nft takes in any case", async () => {
  const costly = await costlyAmong({
    "ip nft-proxy": [90, 80, 70],
    "ip filter": [50, 4, 60],
    "ip kube-proxy": [40, 90, 27],
    "inet big": [104, 105, 110],
  });
  expect(costly).toEqual([
    { table: "inet big", ms: 100 },
    { table: "ip kube-proxy", ms: 23 },
  ]);
});

test("without tables, none is costly", async () => {
  expect(await costlyAmong({})).toEqual([]);
});

test("the advice names the command for kube-proxy's tables where these are among the costly ones", () => {
  const table = (name: string) => ({ table: name, ms: 20 });
  expect(costlyTablesAdvice([table("inet big"), table("ip6 kube-proxy")])).toContain("cleanup --kube-proxy");
  expect(costlyTablesAdvice([table("inet kube-proxy-x")])).not.toContain("cleanup");
});
