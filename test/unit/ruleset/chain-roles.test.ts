import { describe, expect, test } from "vitest";
import { FAMILIES } from "../../../src/base/family.ts";
import { ALL_PARTS, FRONTEND_KINDS } from "../../../src/features/frontends.ts";
import { RANGES } from "../../../src/features/port-ranges/rules.ts";
import { balancerChain, chooserChain, rememberChain } from "../../../src/ruleset/balancers.ts";
import { type Balancer, balancerName, chooserName, rememberName } from "../../../src/ruleset/chain-names.ts";
import { chainRole, keepChain } from "../../../src/ruleset/chain-roles.ts";
import { DeltaTracker } from "../../../src/ruleset/delta-tracker.ts";
import { type Draw, FIRST_ENDPOINT_DRAW } from "../../../src/ruleset/draws.ts";
import { PORTS } from "../../../src/ruleset/frontend-kinds.ts";
import { drawMethodsIn } from "../../../src/ruleset/node-context.ts";
import { setSpecs } from "../../../src/ruleset/set-specs.ts";
import { AFFINITY_SECONDS } from "../../../src/ruleset/setting-grids.ts";
import { staticChains } from "../../../src/ruleset/static-chains.ts";
import { familyContext } from "../../support/build.ts";

const METHODS = drawMethodsIn(ALL_PARTS);
const DRAWS: readonly Draw[] = METHODS.flatMap((method) => method.counts.map((count) => ({ method, count })));

const AFFINITY: readonly Balancer[] = [false, true].flatMap((local) =>
  [{}, { bothLists: true as const }].map((bothLists) => ({
    ...{ ...FIRST_ENDPOINT_DRAW, affinitySeconds: 1, local },
    ...bothLists,
  })),
);

const withoutAffinity = (draw: Draw): Balancer => ({ ...draw, affinitySeconds: 0, local: false });
const SOURCE_RANGES = new Set(["sourceRanges"]);

describe("chainRole", () => {
  test("reads every draw back from the name of a balancer without affinity", () => {
    for (const draw of DRAWS)
      expect(chainRole(balancerName(withoutAffinity(draw), PORTS), METHODS)).toEqual({ kind: "draw", draw });
  });

  test("reads every draw back from the name of a chain that chooses for affinity", () => {
    for (const draw of DRAWS) expect(chainRole(chooserName(draw), METHODS)).toEqual({ kind: "choose", draw });
  });

  test("reads every timeout of the grid back from the name of a chain that remembers clients", () => {
    for (const seconds of AFFINITY_SECONDS) {
      for (const isLocal of [false, true])
        expect(chainRole(rememberName(seconds, isLocal), [])).toEqual({ kind: "remember", seconds, isLocal });
    }
  });

  test("reads the names of the chains of balancers with affinity", () => {
    const names = AFFINITY.map((balancer) => balancerName(balancer, PORTS));
    expect(new Set(names).size).toBe(4);
    for (const [index, name] of names.entries())
      expect(chainRole(name, [])).toEqual({ kind: "affinity", balancer: AFFINITY[index] });
  });

  test("reads the name of every static chain, with all parts of the table", () => {
    const context = familyContext("ip", { features: [] });
    const names = staticChains(context, SOURCE_RANGES).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["source-ranges-check", "source-ranges-allowed"]));
    for (const name of names) expect(chainRole(name, [])).toEqual({ kind: "static", name });
  });

  test.each([
    "",
    "balance-",
    "balance-0",
    "balance-65",
    "balance-3-60",
    "balance-local-3",
    "affinity-3",
    "affinity-3-600",
    "affinity-local-both",
    "my-balance-3",
    "hash-251",
    "source-hash-0",
    "source-hash-3",
    "slots-250",
    "choose-balance-65",
    "choose-affinity",
    "range-choose-balance-3",
    "remember-0",
    "remember-61",
    "remember-600-local",
    "timeouts-x",
    "timeouts-0123456789ABCDEF0123",
    "source-ranges-0123456789abcdef0123",
    "firewall-0123456789abcdef0123",
    "ping-0123456789abcdef0123",
    "client-limit-",
  ])("gives undefined for %j, which is no name of ours", (name) =>
    expect(chainRole(name, METHODS)).toBeUndefined(),
  );
});

describe("keepChain", () => {
  /** The chains that a new table has after keeping one. */
  function kept(...names: readonly string[]) {
    const tracker = new DeltaTracker("ip", setSpecs(familyContext("ip")));
    for (const name of names) for (const kind of FRONTEND_KINDS) keepChain(tracker, name, METHODS, kind);
    return tracker.table.chains;
  }

  test.each([
    ["balance-72", ["balance-1", "balance-72"]],
    ["range-round-robin-3", ["range-balance-1", "range-round-robin-3"]],
    ["choose-slots-251", ["choose-balance-1", "choose-slots-251"]],
    ["balance-1", ["balance-1"]],
    ["affinity-both", ["affinity-both"]],
    ["remember-local-60", ["remember-local-60"]],
  ])("adds %s and the chain that it leads to, which comes first", (name, chains) => {
    expect([...kept(name).keys()]).toEqual(chains);
  });

  test.each(FAMILIES)("adds chains with the rules of their balancer, chooser or timeout in %s", (family) => {
    const tracker = new DeltaTracker(family, setSpecs(familyContext(family)));
    const expected = [
      ...DRAWS.flatMap((draw) => [
        balancerChain(family, withoutAffinity(draw)),
        balancerChain(family, withoutAffinity(draw), RANGES),
        chooserChain(family, draw),
      ]),
      ...AFFINITY.flatMap((balancer) => FRONTEND_KINDS.map((kind) => balancerChain(family, balancer, kind))),
      ...AFFINITY_SECONDS.flatMap((seconds) => [
        rememberChain(family, seconds, false),
        rememberChain(family, seconds, true),
      ]),
    ];
    for (const { name } of expected)
      for (const kind of FRONTEND_KINDS) keepChain(tracker, name, METHODS, kind);
    expect([...tracker.table.chains.keys()].sort()).toEqual(
      [...new Set(expected.map(({ name }) => name))].sort(),
    );
    for (const chain of expected) expect(tracker.table.chains.get(chain.name)).toEqual(chain);
    // All that tenants can make a table have.
    expect(tracker.table.chains.size).toBeLessThanOrEqual(1300);
  });

  test.each(["services", "balance-65", "client-limit-100", "timeouts-0123456789abcdef0123", "foreign"])(
    "adds nothing for %s, which is not kept",
    (name) => {
      expect(kept(name).size).toBe(0);
    },
  );

  test("changes nothing if the table has the chain", () => {
    const tracker = new DeltaTracker("ip", setSpecs(familyContext("ip")));
    keepChain(tracker, "balance-3", METHODS);
    tracker.markCommitted();
    keepChain(tracker, "balance-3", METHODS);
    expect(tracker.pending()).toBeUndefined();
  });
});
