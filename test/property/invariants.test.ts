import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Family } from "../../src/base/family.ts";
import type { Ruleset, Table } from "../../src/nft/ast/ruleset.ts";
import { canonicalRule } from "../../src/nft/canonical/canonical-rule.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { splitParts, verdictTarget } from "../../src/nft/elements.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { validateTransaction } from "../../src/nft/validate.ts";
import { applyPlan, transactionsOf } from "../../src/ruleset/apply-plan.ts";
import { parseChainName } from "../../src/ruleset/chain-names.ts";
import { FIRST_STICKY_NUMBER, listId, MEMBERSHIP, parseId } from "../../src/ruleset/list-ids.ts";
import { refusalAt } from "../../src/ruleset/programmed-frontend.ts";
import { AFFINITY_IDS, BALANCERS, ENDPOINTS, kindOf, LISTS, RANGES } from "../../src/ruleset/sets.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { port, renderAll, service, slice } from "../support/build.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { rulesetText } from "../support/ruleset-text.ts";

const anyRuleset = fc
  .tuple(anyObjects, anyContexts)
  .map(([objects, nodeContext]) => renderAll(objects, nodeContext).state.ruleset);

function elements(table: Table, set: string): ReadonlyMap<string, string> {
  const found = table.sets.get(set);
  if (found === undefined && !set.startsWith("range-")) throw new Error(`no set ${set}`);
  return found?.elements ?? new Map();
}

/** The numbers that a map holds for each id: id to number to value. */
function numbered(table: Table, set: string): Map<number, Map<number, string>> {
  const byId = new Map<number, Map<number, string>>();
  for (const [key, value] of elements(table, set)) {
    const [id = 0, number = 0] = splitParts(key).map(Number);
    byId.set(id, (byId.get(id) ?? new Map<number, string>()).set(number, value));
  }
  return byId;
}

const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);

const sorted = (numbers: Iterable<number> | undefined) => [...(numbers ?? [])].sort((a, b) => a - b);

/** Every number that a balancer may draw has an endpoint, and no endpoint is without a balancer. */
function checkEndpoints(table: Table): void {
  const endpoints = numbered(table, ENDPOINTS);
  const ids = numbered(table, AFFINITY_IDS);
  for (const [key, verdict] of elements(table, BALANCERS)) {
    const id = parseId(Number(key));
    const role = parseChainName(verdictTarget(verdict) ?? "");
    if (role?.kind !== "balancer" || id === undefined)
      throw new Error(`an odd balancer: ${key} : ${verdict}`);
    const { count, affinitySeconds, local } = role.balancer;
    expect(affinitySeconds > 0).toBe(id.isSticky);
    if (!id.isSticky) {
      expect(sorted(endpoints.get(Number(key))?.keys())).toEqual(range(0, count));
      endpoints.delete(Number(key));
      continue;
    }
    const name = local ? "local" : "cluster";
    expect(id.way).toBe(name);
    const drawn = range(FIRST_STICKY_NUMBER[name], count);
    const members = new Set(drawn.map((number) => Number(ids.get(id.servicePort)?.get(number))));
    for (const number of drawn) ids.get(id.servicePort)?.delete(number);
    for (const member of members) {
      expect(parseId(member)).toMatchObject({ servicePort: id.servicePort, way: undefined });
      expect(endpoints.get(member)?.delete(MEMBERSHIP[name])).toBe(true);
    }
  }
  expect([...endpoints.values(), ...ids.values()].filter((rest) => rest.size > 0)).toEqual([]);
}

function tables(ruleset: Ruleset): Table[] {
  return Object.values(ruleset);
}

test("without the option, timeouts of Services leave the bytes of the same Services without them", () => {
  fc.assert(
    fc.property(anyObjects, anyContexts, ({ services, slices }, contexts) => {
      const bytes = (given: typeof services, nodeContext: typeof contexts) =>
        JSON.stringify(rebuildTransaction(renderAll({ services: given, slices }, nodeContext).state.ruleset));
      const untimed = services.map(({ connectionTimeouts: _, ...rest }) => rest);
      const off = contexts.map((context) => ({ ...context, connectionTimeouts: undefined }));
      expect(bytes(services, off)).toBe(bytes(untimed, contexts));
    }),
  );
});

describe("in every ruleset", () => {
  test("every chain that assigns timeouts has its object, and every object its chain", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const { chains, timeouts } of tables(ruleset)) {
          const assigning = [...chains.keys()].filter((name) => name.startsWith("timeouts-"));
          expect(assigning.sort()).toEqual([...(timeouts?.keys() ?? [])].sort());
        }
      }),
    );
  });

  test("every verdict leads to a chain that exists, and every balancer and firewall chain is used", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const { chains, sets } of tables(ruleset)) {
          const verdicts = [...sets.values()].flatMap(({ elements }) => [...elements.values()]);
          const targets = new Set(verdicts.map(verdictTarget).filter((target) => target !== undefined));
          expect([...targets].filter((target) => !chains.has(target))).toEqual([]);
          const rules = JSON.stringify([...chains.values()].map(({ rules }) => rules));
          const perUse = [...chains.keys()].filter((name) =>
            /^(?:balance|affinity|slots|round-robin|source-hash|flow-hash|firewall|timeouts)-\w/.test(name),
          );
          expect(perUse.filter((name) => !targets.has(name))).toEqual([]);
          for (const [, name = ""] of rules.matchAll(/"target":"([^"]+)"/g))
            expect(chains.has(name)).toBe(true);
        }
      }),
    );
  });

  test("a list has exactly the endpoints that its balancer may draw", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const table of tables(ruleset)) checkEndpoints(table);
      }),
    );
  });

  test("every frontend leads to a list that exists, unless it is refused or dropped", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const table of tables(ruleset)) {
          const used = new Set<number>();
          for (const [frontend, text] of [...elements(table, LISTS), ...elements(table, RANGES.lists)]) {
            const maps = kindOf(frontend);
            const refusal = refusalAt(table, frontend);
            const { servicePort, way } = parseId(Number(text)) ?? { servicePort: 0, way: undefined };
            const has = (list: "cluster" | "local") =>
              elements(table, maps.balancers).has(String(listId(servicePort, list)));
            used.add(servicePort);
            if (way === "local" || way === "external-local") expect(has("local")).toBe(refusal === undefined);
            else expect(has("cluster") || refusal !== undefined).toBe(true);
            if (way === "external-local" && refusal !== undefined) {
              expect(has("cluster")).toBe(refusal === "dropped");
            }
          }
          const balanced = new Set(
            Array.from(elements(table, BALANCERS).keys(), (id) => parseId(Number(id))?.servicePort),
          );
          expect([...balanced].filter((id) => !used.has(id ?? 0))).toEqual([]);
        }
      }),
    );
  });

  test("every rule is in canonical form and every transaction passes its schema", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        const rules = tables(ruleset).flatMap(({ chains }) =>
          [...chains.values()].flatMap((chain) => chain.rules),
        );
        for (const rule of rules) expect(JSON.stringify(rule)).toBe(JSON.stringify(canonicalRule(rule)));
        validateTransaction(rebuildTransaction(ruleset));
      }),
    );
  });
});

describe("a transaction", () => {
  test("made of the difference of two rulesets turns one into the other", () => {
    fc.assert(
      fc.property(anyRuleset, anyRuleset, (one, other) => {
        const kernel = new FakeKernel();
        kernel.apply(toTransaction(diffRuleset({}, one)));
        expect(rulesetText(kernel.ruleset)).toBe(rulesetText(one));
        const transaction = toTransaction(diffRuleset(kernel.ruleset, other));
        validateTransaction(transaction);
        kernel.apply(transaction);
        expect(rulesetText(kernel.ruleset)).toBe(rulesetText(other));
        expect(diffRuleset(kernel.ruleset, other)).toEqual([]);
      }),
    );
  });

  test("that rebuilds turns any tables into the desired ones, except for stale chains and what they used", () => {
    fc.assert(
      fc.property(anyRuleset, anyRuleset, (one, other) => {
        const kernel = new FakeKernel();
        kernel.apply(rebuildTransaction(one));
        kernel.apply(rebuildTransaction(other));
        for (const table of Object.values(kernel.ruleset)) {
          for (const name of table.chains.keys())
            if (!other[table.family]?.chains.has(name)) table.chains.delete(name);
          for (const name of table.sets.keys())
            if (!other[table.family]?.sets.has(name)) table.sets.delete(name);
          for (const name of table.timeouts?.keys() ?? [])
            if (!other[table.family]?.timeouts?.has(name)) table.timeouts?.delete(name);
        }
        expect(rulesetText(kernel.ruleset)).toBe(rulesetText(other));
      }),
    );
  });

  test("in chunks gives the same tables in either order of the chunks, with base chains last", () => {
    fc.assert(
      fc.property(anyRuleset, fc.integer({ min: 1, max: 20 }), fc.boolean(), (ruleset, size, isReversed) => {
        const kernel = new FakeKernel();
        const steps = applyPlan(diffRuleset({}, ruleset), { chunkSize: size });
        const transactions = steps.flatMap((step) => {
          const chunks = [...transactionsOf(step, size)];
          return isReversed && step.divided === "in any order" ? chunks.reverse() : chunks;
        });
        for (const chunk of transactions) {
          expect(rulesetText(kernel.ruleset)).not.toContain('"hook"');
          validateTransaction(chunk);
          kernel.apply(chunk);
        }
        expect(rulesetText(kernel.ruleset)).toBe(rulesetText(ruleset));
      }),
    );
  });
});

describe("the number of chains, sets and maps", () => {
  const shape = (count: number, family: Family) => {
    const services = range(0, count).map((i) =>
      service({
        name: `s${i}`,
        clusterIPs: [`10.96.0.${i}`, `fd00:10:96::${i}`],
        ports: [port(80, { nodePort: 30000 + i })],
      }),
    );
    const slices = range(0, count).flatMap((i) => [
      slice({ service: `s${i}`, endpoints: range(1, 4).map((j) => `10.244.${i}.${j}`) }),
      slice({ service: `s${i}`, endpoints: range(1, 4).map((j) => `fd00:244:${i}::${j}`) }),
    ]);
    const table = renderAll({ services, slices }).state.ruleset[family];
    return { chains: [...(table?.chains.keys() ?? [])], sets: [...(table?.sets.keys() ?? [])] };
  };

  test.each(["ip", "ip6"] as const)("does not grow with the number of Services (%s)", (family) => {
    expect(shape(200, family)).toEqual(shape(10, family));
  });
});

test("the elements of a Service grow with the sum of its addresses and endpoints, not with their product", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 1, max: 30 }), (addresses, endpoints) => {
      const externalIPs = range(1, addresses).map((i) => `203.0.113.${i}`);
      const services = [service({ name: "s", externalIPs, ports: [port(80, { nodePort: 30080 })] })];
      const slices = [slice({ service: "s", endpoints: range(1, endpoints).map((i) => `10.244.0.${i}`) })];
      const table = renderAll({ services, slices }).state.ruleset.ip;
      const counts = [LISTS, BALANCERS, ENDPOINTS].map((set) => table?.sets.get(set)?.elements.size);
      expect(counts).toEqual([addresses + 2, 1, endpoints]);
    }),
  );
});
