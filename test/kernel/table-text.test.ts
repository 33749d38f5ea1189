import { readFileSync } from "node:fs";
import { execaSync } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FAMILIES } from "../../src/base/family.ts";
import type { Transaction } from "../../src/nft/ast/json.ts";
import type { Ruleset, Table } from "../../src/nft/ast/ruleset.ts";
import { tableText } from "../../src/nft/text/table-text.ts";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { applyTransaction } from "../support/apply-transaction.ts";
import { everyRule } from "../support/every-rule.ts";
import { parseWithElements } from "../support/listed-elements.ts";
import { rulesetText } from "../support/ruleset-text.ts";

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

const RULESETS: readonly (readonly [name: string, ruleset: Ruleset])[] = [
  ["the town", applyTransaction({}, JSON.parse(town) as Transaction)],
  ["every kind of rule", everyRule()],
];

describe.each(
  RULESETS.flatMap(([name, ruleset]) => FAMILIES.map((family) => [name, family, ruleset] as const)),
)("the text of the table with %s (%s)", (_, family, ruleset) => {
  const table = ruleset[family] as Table;
  const listed = (): unknown => parseWithElements(nft(["-j", "list", "table", family, "nft-proxy"]))[family];
  const load = () => nft(["-j", "-f", "-"], JSON.stringify(rebuildTransaction(ruleset)));

  test("equals nft's output, except for counters of elements", () => {
    load();
    const printed = nft(["-s", "list", "table", family, "nft-proxy"]);
    expect(tableText(listed() as Table)).toBe(printed.replaceAll(" counter : ", " : "));
  });

  test("loads as the same table", () => {
    load();
    const printed = nft(["-s", "list", "table", family, "nft-proxy"]);
    flush();
    nft(["-f", "-"], printed);
    expect(rulesetText({ [family]: listed() as Table })).toBe(rulesetText({ [family]: table }));
  });

  test.each([
    ["bare", {}],
    [
      "commented",
      { element: (_: unknown, key: string) => `of ${key}`, chain: (name: string) => `chain ${name}` },
    ],
  ])("loads as the same table, %s", (_, comments) => {
    nft(["-f", "-"], tableText(table, comments));
    expect(rulesetText({ [family]: listed() as Table })).toBe(rulesetText({ [family]: table }));
  });
});
