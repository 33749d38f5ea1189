import { describe, expect, test } from "vitest";
import type { Command } from "../../../src/nft/ast/json.ts";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { deltaText } from "../../../src/nft/text/delta-text.ts";
import { rebuildTransaction, removalTransaction, toTransaction } from "../../../src/nft/transaction.ts";
import { renderAll, service, slice, testNodeContext } from "../../support/build.ts";

const rules = (...endpoints: string[]) =>
  renderAll({ services: [service({})], slices: [slice({ endpoints })] }, testNodeContext()).state.ruleset;

/** `add chain balance-1`, `delete element endpoints`, `add rule balance-1`. */
function lineOf(command: Command): string {
  const [verb = "", object = {}] = Object.entries(command)[0] ?? [];
  const [kind = "", body = {}] = Object.entries(object)[0] ?? [];
  const { name, chain } = body as { readonly name?: string; readonly chain?: string };
  return `${verb} ${kind} ${name ?? chain}`;
}

const lines = (commands: readonly Command[]) => commands.map(lineOf);

describe("a transaction of changes", () => {
  const deltas = diffRuleset(rules("10.244.1.1"), rules("10.244.1.1", "10.244.1.2"));
  const sent = lines(toTransaction(deltas).nftables);
  const at = (line: string) => sent.indexOf(line);

  test("declares a chain before elements lead to it", () => {
    expect(at("add chain balance-2")).toBeGreaterThanOrEqual(0);
    expect(at("add chain balance-2")).toBeLessThan(at("add element balancers"));
  });

  test("deletes a chain after the elements that led to it", () => {
    const back = lines(
      toTransaction(diffRuleset(rules("10.244.1.1", "10.244.1.2"), rules("10.244.1.1"))).nftables,
    );
    expect(back.indexOf("delete element balancers")).toBeGreaterThanOrEqual(0);
    expect(back.indexOf("delete chain balance-2")).toBeGreaterThan(back.indexOf("delete element balancers"));
  });
});

test("an element with a timeout is added before it is deleted, because the kernel may already have removed it", () => {
  const state = renderAll({}, testNodeContext({ resetVanished: true })).state;
  state.markCommitted();
  state.families.ip?.setKeys("connection-life", new Set(["10.244.1.1 . 8080"]));
  expect(lines(toTransaction(state.pending()).nftables)).toEqual(["add element vanished"]);
  state.markCommitted();
  state.families.ip?.setKeys("connection-life", new Set());
  expect(lines(toTransaction(state.pending()).nftables)).toEqual([
    "add element vanished",
    "delete element vanished",
  ]);
  expect(deltaText(state.pending())).toContain(
    "add element ip nft-proxy vanished {\n\t10.244.1.1 . 8080\n}\ndelete",
  );
});

test("a rebuild empties all chains and sets, except for those that packets fill", () => {
  const sent = lines(rebuildTransaction(rules("10.244.1.1")).nftables);
  expect(sent).toContain("flush chain services");
  expect(sent).toContain("flush map endpoints");
  expect(sent).not.toContain("flush map affinity");
});

test("a removal adds each table first, which nft needs where there is none", () => {
  const table = { family: "ip", name: "nft-proxy" } as const;
  expect(removalTransaction([table]).nftables).toEqual([{ add: { table } }, { delete: { table } }]);
});
