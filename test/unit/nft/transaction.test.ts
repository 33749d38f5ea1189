import { describe, expect, test } from "vitest";
import type { Command } from "../../../src/nft/ast/json.ts";
import { creation, diffRuleset } from "../../../src/nft/delta.ts";
import { deltaText } from "../../../src/nft/text/delta-text.ts";
import {
  creationSteps,
  rebuildTransaction,
  removalTransaction,
  toTransaction,
  withoutChainDeletions,
} from "../../../src/nft/transaction.ts";
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
    expect(at("delete chain balance-1")).toBeGreaterThan(at("delete element balancers"));
  });

  test("leaves the deletion of chains to a second transaction where the kernel needs that", () => {
    const { main, deletions } = withoutChainDeletions(deltas);
    expect(lines(toTransaction(main).nftables)).not.toContain("delete chain balance-1");
    expect(lines(toTransaction(deletions).nftables)).toEqual([
      "flush chain balance-1",
      "delete chain balance-1",
    ]);
  });
});

test("an element that ends by itself is added before it is deleted, for the kernel may have ended it", () => {
  const state = renderAll({}, testNodeContext({ resetVanished: true })).state;
  state.committed();
  state.families.ip?.setVanished(new Set(["10.244.1.1 . 8080"]));
  expect(lines(toTransaction(state.pending()).nftables)).toEqual(["add element vanished"]);
  state.committed();
  state.families.ip?.setVanished(new Set());
  expect(lines(toTransaction(state.pending()).nftables)).toEqual([
    "add element vanished",
    "delete element vanished",
  ]);
  expect(deltaText(state.pending())).toContain(
    "add element ip nft-proxy vanished {\n\t10.244.1.1 . 8080\n}\ndelete",
  );
});

test("sets are deleted in the second transaction, after the chains that look into them", () => {
  const [before, after] = [true, false].map(
    (resetVanished) => renderAll({}, testNodeContext({ resetVanished })).state,
  );
  const deltas = diffRuleset(before?.ruleset ?? {}, after?.ruleset ?? {});
  const { main, deletions } = withoutChainDeletions(deltas);
  expect(lines(toTransaction(main).nftables)).not.toContain("delete set vanished");
  const sent = lines(toTransaction(deletions).nftables);
  const places = [
    "flush chain vanished-endpoints-check",
    "delete set vanished",
    "delete chain vanished-endpoints-check",
  ];
  expect(places.map((line) => sent.indexOf(line))).toEqual([2, 3, 6]);
});

test("a cold start adds elements in chunks of the given size, and hooks with the last transaction alone", () => {
  const deltas = Object.values(rules("10.244.1.1", "10.244.1.2", "10.244.1.3")).map((table) =>
    creation(table, "create"),
  );
  const { declaration, elements, activation } = creationSteps(deltas, 2);
  const sizes = [...elements].map(({ nftables }) =>
    nftables.flatMap((command) =>
      "add" in command && "element" in command.add ? command.add.element.elem : [],
    ),
  );
  expect(sizes.map(({ length }) => length)).toEqual([2, 2, 2, 2]);
  expect([declaration, activation].map((sent) => JSON.stringify(sent).includes('"hook"'))).toEqual([
    false,
    true,
  ]);
  expect([declaration, activation].map((sent) => JSON.stringify(sent).includes('"element"'))).toEqual([
    false,
    false,
  ]);
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
