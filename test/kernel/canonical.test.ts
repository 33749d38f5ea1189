import { readFileSync } from "node:fs";
import { execaSync } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Family } from "../../src/base/family.ts";
import type { Transaction } from "../../src/nft/ast/json.ts";
import { AFFINITY } from "../../src/ruleset/sets.ts";
import { affinityEntries, affinityKey, parseAffinityKey } from "../support/affinity-entries.ts";
import { applyTransaction } from "../support/apply-transaction.ts";
import { parseWithElements } from "../support/listed-elements.ts";

const town = JSON.parse(
  readFileSync(new URL("../fixtures/town/transaction.json", import.meta.url), "utf8"),
) as Transaction;

/** Runs nft in the tests' own namespace. */
function nft(args: readonly string[], input = ""): string {
  return execaSync("nft", [...args], { input, maxBuffer: 100_000_000 }).stdout;
}

function list(family: Family): string {
  return nft(["-j", "list", "table", family, "nft-proxy"]);
}

const flush = (): string => nft(["flush", "ruleset"]);
beforeEach(() => {
  flush();
});
afterEach(() => {
  flush();
});

describe("the canonical ruleset", () => {
  test.each(["ip", "ip6"] as const)("of nft's listing equals that of the transaction (%s)", (family) => {
    nft(["-j", "-f", "-"], JSON.stringify(town));
    expect(parseWithElements(list(family))[family]).toEqual(applyTransaction({}, town)[family]);
  });

  test("differs after a change by another program", () => {
    nft(["-j", "-f", "-"], JSON.stringify(town));
    nft(["add element ip nft-proxy cluster-ips { 10.96.9.9 }"]);
    const wanted = applyTransaction({}, town).ip;
    expect(parseWithElements(list("ip")).ip?.sets.get("cluster-ips")).not.toEqual(
      wanted?.sets.get("cluster-ips"),
    );
  });

  test("excludes the elements of dynamic maps, which are read separately", () => {
    nft(["-j", "-f", "-"], JSON.stringify(town));
    const servicePort = 0xc000_8000;
    const entry = `${affinityKey("192.0.2.1", servicePort)} timeout 600s : c000:b1bc`;
    nft([`add element ip nft-proxy ${AFFINITY} { ${entry} }`]);
    const listing = list("ip");
    expect(parseWithElements(listing).ip).toEqual(applyTransaction({}, town).ip);
    const map = nft(["-j", "list", "map", "ip", "nft-proxy", AFFINITY]);
    const found = affinityEntries(map).map(({ key, ...rest }) => ({ ...parseAffinityKey(key), ...rest }));
    expect(found).toEqual([
      {
        client: "192.0.2.1",
        servicePort,
        value: String(0xc000_b1bc),
        timeoutMs: 600_000,
        expiresMs: expect.closeTo(600_000, -4),
      },
    ]);
  });

  test.each([
    ["adjacent prefixes", ["10.0.0.0/8", "12.0.0.0/8", "11.0.0.0/8"]],
    ["overlapping prefixes", ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.1/32"]],
    ["neighbouring addresses", ["192.0.2.2/32", "192.0.2.1/32"]],
    ["everything", ["0.0.0.0/1", "128.0.0.0/1"]],
    ["one address", ["192.0.2.200/32"]],
  ])("joins %s as nft lists them", (_, cidrs) => {
    const set = cidrs.map((cidr) => {
      const [addr = "", len] = cidr.split("/");
      return { prefix: { addr, len: Number(len) } };
    });
    const at = { family: "ip", table: "nft-proxy" } as const;
    const left = { payload: { protocol: "ip", field: "saddr" } };
    const transaction: Transaction = {
      nftables: [
        { add: { table: { family: "ip", name: "nft-proxy" } } },
        { add: { chain: { ...at, name: "c" } } },
        {
          add: {
            rule: {
              ...at,
              chain: "c",
              expr: [{ match: { op: "!=", left, right: { set } } }, { drop: null }],
            },
          },
        },
      ],
    };
    nft(["-j", "-f", "-"], JSON.stringify(transaction));
    expect(parseWithElements(list("ip"))).toEqual(applyTransaction({}, transaction));
  });
});
