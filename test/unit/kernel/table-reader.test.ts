import { describe, expect, test } from "vitest";
import { nftTables } from "../../../src/kernel/table-reader.ts";
import type { SetSpec } from "../../../src/nft/ast/ruleset.ts";
import { stubNft } from "../../support/stub-nft.ts";

const SPEC: SetSpec = { name: "m", key: ["ipv4_addr"], value: ["classid"], dynamic: true, counter: false };
const [FIRST, SECOND] = [
  { key: "10.0.0.1", value: "1", timeoutMs: 60_000, expiresMs: 59_000 },
  { key: "10.0.0.2", value: "2" },
];

/** An nft that prints these pieces for a set, and what it was asked for. */
function printing(...pieces: readonly string[]) {
  const asked: unknown[] = [];
  const nft = stubNft({
    list: async (args) => args.join(" "),
    async *stream(args, signal) {
      asked.push([args.join(" "), signal]);
      yield* pieces;
    },
  });
  const tables = nftTables(nft);
  return { tables, asked };
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const result: Item[] = [];
  for await (const item of items) result.push(item);
  return result;
}

const text = JSON.stringify({
  nftables: [
    { metainfo: {} },
    {
      map: {
        family: "ip",
        table: "nft-proxy",
        name: "m",
        elem: [
          [{ elem: { val: "10.0.0.1", timeout: 60, expires: 59 } }, "0:1"],
          ["10.0.0.2", "0:2"],
        ],
      },
    },
  ],
});

describe("nftTables", () => {
  test("yields elements as nft prints them, wherever its output is cut", async () => {
    for (let at = 0; at < text.length; at++) {
      const { tables } = printing(text.slice(0, at), text.slice(at));
      const batches = await all(tables.elements("ip", SPEC));
      expect(batches.flat()).toEqual([FIRST, SECOND]);
      expect(batches.every((batch) => batch.length > 0)).toBe(true);
    }
  });

  test("lists a set or a map, and passes on the signal", async () => {
    const { tables, asked } = printing();
    const { signal } = new AbortController();
    const { value, ...set } = SPEC;
    expect(await all(tables.elements("ip", SPEC, signal)), "not there").toEqual([]);
    await all(tables.elements("ip6", set));
    expect(asked).toEqual([
      ["-j list map ip nft-proxy m", signal],
      ["-j list set ip6 nft-proxy m", undefined],
    ]);
    expect(await tables.listTable("ip")).toBe("-j -t list table ip nft-proxy");
  });

  test("throws for a listing that ends too early", async () => {
    const { tables } = printing(text.slice(0, -4));
    await expect(all(tables.elements("ip", SPEC))).rejects.toMatchObject({ code: "NFT_OUTPUT" });
  });

  test("finds one element by its key", async () => {
    const { tables } = printing(text);
    expect(await tables.element("ip", SPEC, "10.0.0.2")).toEqual(SECOND);
    expect(await tables.element("ip", SPEC, "10.0.0.3")).toBeUndefined();
  });
});
