import { describe, expect, test } from "vitest";
import { rules as part } from "../../../src/features/fast-path/rules.ts";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { deltaText } from "../../../src/nft/text/delta-text.ts";
import { toTransaction } from "../../../src/nft/transaction.ts";
import { withoutObjectDeletions } from "../../../src/ruleset/apply-plan.ts";
import { partFeatures } from "../../../src/ruleset/required-features.ts";
import { staticChains } from "../../../src/ruleset/static-chains.ts";
import {
  type ContextOptions,
  familyContext,
  renderAll,
  service,
  testNodeContext,
} from "../../support/build.ts";
import { FakeKernel } from "../../support/fake-kernel.ts";

const ON = { settings: { fastPath: true, fastPathAfter: 7 } };
const rulesetOf = (options: ContextOptions) =>
  renderAll({ services: [service()] }, testNodeContext(options)).state.ruleset;
const [without, offloading] = [rulesetOf({}), rulesetOf(ON)];

function rules(chain: string, options: ContextOptions) {
  const found = staticChains(familyContext("ip", options)).find(({ name }) => name === chain);
  if (found === undefined) throw new Error(`no chain ${chain}`);
  return found.rules;
}

describe("the fast path", () => {
  test("takes packets of connections that are not new, after which new ones cost what they cost without it", () => {
    const [first, ...others] = rules("filter-forward", ON);
    const [accepting, ...withoutIt] = rules("filter-forward", {});
    expect(first).toEqual([accepting?.[0], { goto: { target: "fast-path" } }]);
    expect(others).toEqual(withoutIt);
  });

  test("offloads translated connections with one packet in so many of their clients", () => {
    expect(rules("fast-path", ON)).toEqual([
      [
        { match: { op: "==", left: { ct: { key: "direction" } }, right: "original" } },
        { match: { op: "in", left: { ct: { key: "status" } }, right: "dnat" } },
        { match: { op: "in", left: { ct: { key: "state" } }, right: "established" } },
        { match: { op: "==", left: { numgen: { mode: "random", mod: 7, offset: 0 } }, right: 0 } },
        { flow: { op: "add", flowtable: "@fast-path" } },
      ],
    ]);
  });

  test("has a flow table in each table, of which that of IPv4 comes first", () => {
    const flowtables = Object.values(offloading).map(({ family, flowtable }) => [family, flowtable]);
    expect(flowtables).toEqual([
      ["ip", { name: "fast-path", hook: "ingress", prio: -1 }],
      ["ip6", { name: "fast-path", hook: "ingress", prio: 0 }],
    ]);
  });

  test.each([
    ["unless asked for", {}],
    ["if nft or the kernel lacks flow tables", { ...ON, lacking: ["fast-path"] }],
  ])("is not there %s", (_, options) => {
    expect(JSON.stringify(toTransaction(diffRuleset({}, rulesetOf(options))))).not.toMatch(/fast-path|flow/);
  });

  test("has its flow table before the rules that refer to it, and until they are gone", () => {
    const at = (lines: readonly string[], start: string) => lines.findIndex((line) => line.startsWith(start));
    const added = deltaText(diffRuleset(without, offloading)).split("\n");
    const flowtable = "add flowtable ip nft-proxy fast-path { hook ingress priority filter - 1; }";
    expect(at(added, flowtable)).toBeGreaterThan(-1);
    expect(at(added, flowtable)).toBeLessThan(at(added, "add rule ip nft-proxy fast-path"));
    const deleted = deltaText(diffRuleset(offloading, without)).split("\n");
    expect(at(deleted, "delete flowtable ip nft-proxy fast-path")).toBeGreaterThan(
      at(deleted, "flush chain ip nft-proxy fast-path"),
    );
  });

  test("loses its flow table with the chain that used it", () => {
    const kernel = new FakeKernel();
    kernel.apply(toTransaction(diffRuleset({}, offloading)));
    const { main, objectDeletions } = withoutObjectDeletions(diffRuleset(kernel.ruleset, without));
    kernel.apply(toTransaction(main));
    expect(kernel.ruleset.ip?.flowtable?.name).toBe("fast-path");
    kernel.apply(toTransaction(objectDeletions));
    expect(kernel.ruleset.ip?.flowtable).toBeUndefined();
  });

  test("is probed by a rule of the forward chain with a flow table, and the release of the kernel apart from it", () => {
    const { whole, features } = partFeatures(part, part.needs);
    const [flow, release] = features.map(({ transaction }) => JSON.stringify(transaction));
    expect(flow).toContain('"flowtable":{"family":"ip","table":"nft-proxy-probe","name":"fast-path"');
    expect(flow).toContain('"hook":"forward"');
    expect(flow).toContain('{"goto":{"target":"fast-path"}}');
    expect(release).toContain('{"last":null}');
    expect(release).not.toContain("flow");
    expect(whole.nftables).toEqual(features.flatMap(({ transaction }) => transaction.nftables));
  });
});
