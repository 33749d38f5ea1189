import { readFileSync } from "node:fs";
import { execaSync } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Transaction } from "../../src/nft/ast/json.ts";
import type { Table } from "../../src/nft/ast/ruleset.ts";
import { parseListing, readListing } from "../../src/nft/canonical/parse.ts";
import { tableText } from "../../src/nft/text/table-text.ts";
import { applyTransaction } from "../support/apply-transaction.ts";

const town = readFileSync(new URL("../fixtures/town/transaction.json", import.meta.url), "utf8");

function nft(args: readonly string[], input = ""): string {
  return execaSync("nft", [...args], { input, stripFinalNewline: false }).stdout;
}

const flush = (): string => nft(["flush", "ruleset"]);
beforeEach(() => {
  flush();
});
afterEach(() => {
  flush();
});

describe.each(["ip", "ip6"] as const)("the text of the town's %s table", (family) => {
  const table = applyTransaction({}, JSON.parse(town) as Transaction)[family] as Table;
  const listed = (): unknown => parseListing(readListing(nft(["-j", "list", "table", family, "nft-proxy"])))[family];

  test("is what nft prints", () => {
    nft(["-j", "-f", "-"], town);
    expect(tableText(listed() as Table)).toBe(nft(["list", "table", family, "nft-proxy"]));
  });

  test.each([
    ["bare", {}],
    ["commented", { element: (_: unknown, key: string) => `of ${key}`, chain: (name: string) => `chain ${name}` }],
  ])("loads as the same table, %s", (_, comments) => {
    nft(["-f", "-"], tableText(table, comments));
    expect(listed()).toEqual(table);
  });
});
