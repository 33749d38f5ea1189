import { describe, expect, test } from "vitest";
import type { BaseChain, Chain, ElementSet, Ruleset, SetSpec } from "../../../src/nft/ast/ruleset.ts";
import { deltaSize, diffRuleset, type TableDelta, unexplained } from "../../../src/nft/delta.ts";
import { toTransaction } from "../../../src/nft/transaction.ts";
import { FakeKernel } from "../../support/fake-kernel.ts";
import { objectWords } from "../../support/object-words.ts";
import { rulesetText } from "../../support/ruleset-text.ts";

const HOOK: BaseChain = { type: "filter", hook: "forward", prio: 0, policy: "accept" };

function set(
  name: string,
  elements: Record<string, string> = {},
  options: Partial<SetSpec> = {},
): ElementSet {
  const spec: SetSpec = {
    name,
    key: ["ipv4_addr"],
    value: "verdict",
    dynamic: false,
    counter: false,
    ...options,
  };
  return { spec, elements: new Map(Object.entries(elements)) };
}

const drops = (name: string, base?: BaseChain): Chain => ({
  name,
  ...(base && { base }),
  rules: [[{ drop: null }]],
});

function ruleset(chains: readonly Chain[], sets: readonly ElementSet[] = []): Ruleset {
  return {
    ip: {
      family: "ip",
      name: "nft-proxy",
      chains: new Map(chains.map((chain) => [chain.name, chain])),
      sets: new Map(sets.map((each) => [each.spec.name, each])),
    },
  };
}

/** Makes `one`, turns it into `other`, and gives what that took. */
function turn(one: Ruleset, other: Ruleset): TableDelta | undefined {
  const kernel = new FakeKernel();
  kernel.apply(toTransaction(diffRuleset({}, one)));
  const deltas = diffRuleset(kernel.ruleset, other);
  kernel.apply(toTransaction(deltas));
  expect(rulesetText(kernel.ruleset)).toBe(rulesetText(other));
  return deltas[0];
}

describe("the difference of two rulesets", () => {
  test("is empty for the same parts in another order", () => {
    const a = { "10.0.0.1": "drop" };
    const b = { "10.0.0.2": "accept" };
    const one = ruleset([drops("x"), drops("y")], [set("m", { ...a, ...b })]);
    expect(diffRuleset(one, ruleset([drops("y"), drops("x")], [set("m", { ...b, ...a })]))).toEqual([]);
  });

  test("deletes and adds an element whose value changed", () => {
    const delta = turn(
      ruleset([], [set("m", { "10.0.0.1": "drop", "10.0.0.2": "drop", "10.0.0.3": "drop" })]),
      ruleset([], [set("m", { "10.0.0.1": "accept", "10.0.0.2": "drop", "10.0.0.4": "drop" })]),
    );
    expect(delta?.elements).toMatchObject([
      {
        deleted: [
          { key: "10.0.0.1", value: "drop" },
          { key: "10.0.0.3", value: "drop" },
        ],
        added: [
          { key: "10.0.0.1", value: "accept" },
          { key: "10.0.0.4", value: "drop" },
        ],
      },
    ]);
    expect(deltaSize(delta === undefined ? [] : [delta])).toEqual({ chains: 0, sets: 0, elements: 4 });
  });

  test("writes a chain before an element leads to it, and deletes one after the last element that leads to it", () => {
    const delta = turn(
      ruleset([drops("x")], [set("m", { "10.0.0.1": "goto x" })]),
      ruleset([drops("y")], [set("m", { "10.0.0.1": "goto y" })]),
    );
    expect([delta?.mode, ...objectWords(delta ? [delta] : [])]).toEqual(["change", "+ chain y", "- chain x"]);
  });

  test("replaces a base chain whose hook changed", () => {
    const delta = turn(ruleset([drops("x", HOOK)]), ruleset([drops("x", { ...HOOK, prio: 10 })]));
    expect([delta?.mode, ...objectWords(delta ? [delta] : [])]).toEqual(["change", "~ chain x"]);
  });

  test("deletes what is not desired, also chains that lead to each other", () => {
    const chain = (name: string, target: string): Chain => ({ name, rules: [[{ jump: { target } }]] });
    turn(
      ruleset([drops("z"), chain("y", "z"), chain("x", "y")], [set("n", { "10.0.0.1": "goto x" })]),
      ruleset([]),
    );
  });

  test.each<[string, Ruleset, Ruleset]>([
    ["another type", ruleset([], [set("m")]), ruleset([], [set("m", {}, { key: ["inet_service"] })])],
    ["counters", ruleset([], [set("m")]), ruleset([], [set("m", {}, { counter: true })])],
    [
      "another size",
      ruleset([], [set("m", {}, { dynamic: true, size: 1 })]),
      ruleset([], [set("m", {}, { dynamic: true, size: 2 })]),
    ],
    ["a hook where there was none", ruleset([drops("x")]), ruleset([drops("x", HOOK)])],
  ])("recreates the table for %s", (_, one, other) => {
    expect(turn(one, other)?.mode).toBe("recreate");
  });

  const offloads: Chain = { name: "f", rules: [[{ flow: { op: "add", flowtable: "@fast-path" } }]] };
  const withFlowtable = (prio = 0): Ruleset => {
    const { ip } = ruleset([offloads]);
    if (ip === undefined) throw new Error("no table");
    return { ip: { ...ip, flowtable: { name: "fast-path", hook: "ingress", prio } } };
  };

  test("adds a flow table before the rules that use it, and deletes it after them", () => {
    const none = ruleset([drops("x")]);
    expect(turn(none, withFlowtable())).toMatchObject({
      mode: "change",
      objects: [{ kind: "flowtable", before: undefined }, {}, {}],
    });
    expect(turn(withFlowtable(), none)).toMatchObject({
      mode: "change",
      objects: [{ kind: "flowtable", after: undefined }, {}, {}],
    });
    expect(turn(withFlowtable(), withFlowtable())).toBeUndefined();
  });

  test("recreates the table for a flow table with another priority", () => {
    expect(turn(withFlowtable(), withFlowtable(10))?.mode).toBe("recreate");
  });

  test("ignores the elements of dynamic maps", () => {
    const dynamic = (elements: Record<string, string>) =>
      ruleset([], [set("m", elements, { dynamic: true, value: ["classid"] })]);
    expect(diffRuleset(dynamic({ "10.0.0.1": "1" }), dynamic({ "10.0.0.2": "2" }))).toEqual([]);
  });

  test("ignores a family that is not desired", () => {
    expect(diffRuleset(ruleset([drops("x")]), {})).toEqual([]);
  });
});

describe("unexplained differences", () => {
  const before = ruleset([drops("x")], [set("m", { "10.0.0.1": "drop" })]);
  const wanted = ruleset([drops("x"), drops("y")], [set("m", { "10.0.0.1": "drop", "10.0.0.2": "drop" })]);
  const pending = diffRuleset(before, wanted);

  test("are empty when the kernel only lacks pending changes", () => {
    expect(unexplained(diffRuleset(before, wanted), pending)).toEqual([]);
  });

  test("are those that were not pending", () => {
    const tampered = ruleset([drops("x"), drops("z")], [set("m", { "10.0.0.9": "drop" })]);
    expect(unexplained(diffRuleset(tampered, wanted), pending)).toMatchObject([
      {
        objects: [{ kind: "chain", before: drops("z") }],
        elements: [{ deleted: [{ key: "10.0.0.9" }], added: [{ key: "10.0.0.1" }] }],
      },
    ]);
  });

  test("are all elements when the table is missing", () => {
    expect(unexplained(diffRuleset({}, wanted), pending)).toEqual(diffRuleset({}, wanted));
  });
});
