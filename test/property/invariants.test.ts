import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Family } from "../../src/base/family.ts";
import { chainRole, FRONTEND_KINDS } from "../../src/features/frontends.ts";
import { RANGES } from "../../src/features/port-ranges/rules.ts";
import { withoutFeature } from "../../src/model/service.ts";
import type { Ruleset, Table } from "../../src/nft/ast/ruleset.ts";
import { canonicalRule } from "../../src/nft/canonical/canonical-rule.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { splitParts, verdictTarget } from "../../src/nft/elements.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { validateTransaction } from "../../src/nft/transaction-text.ts";
import { applyPlan, transactionsOf } from "../../src/ruleset/apply-plan.ts";
import { kindOf } from "../../src/ruleset/frontend-kinds.ts";
import { CLIENTS_OF, LIST_NAMES, listId, MEMBERSHIP, parseId } from "../../src/ruleset/list-ids.ts";
import { refusalAt } from "../../src/ruleset/programmed-frontend.ts";
import {
  AFFINITY_CHOOSERS,
  AFFINITY_IDS,
  AFFINITY_TIMEOUTS,
  BALANCERS,
  ENDPOINTS,
  LISTS,
  SOURCE_RANGE_LISTS,
  SOURCE_RANGES,
} from "../../src/ruleset/sets.ts";
import { DRAW_COUNTS, drawsOf } from "../../src/ruleset/setting-grids.ts";
import { ALLOWS_ALL } from "../../src/ruleset/source-ranges.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { port, renderAll, service, slice, testNodeContext, withoutStaleRanges } from "../support/build.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { isKept, rulesetText } from "../support/ruleset-text.ts";

const anyRuleset = fc
  .tuple(anyObjects, anyContexts)
  .map(([objects, nodeContext]) => withoutStaleRanges(renderAll(objects, nodeContext)).state.ruleset);

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

/** The role of the chain that a map's verdict leads to. */
function roleAt(table: Table, map: string, key: number) {
  return chainRole(verdictTarget(elements(table, map).get(String(key)) ?? "") ?? "");
}

/**
 * Every list has a chain for its number of endpoints, which are numbered without gaps. No endpoint is in no
 * list.
 */
function checkEndpoints(table: Table): void {
  const endpoints = numbered(table, ENDPOINTS);
  const ids = numbered(table, AFFINITY_IDS);
  for (const key of Array.from(elements(table, BALANCERS).keys(), Number)) {
    const id = parseId(key);
    const balancer = roleAt(table, BALANCERS, key);
    const role = balancer?.kind === "affinity" ? roleAt(table, AFFINITY_CHOOSERS, key) : balancer;
    if ((role?.kind !== "draw" && role?.kind !== "choose") || id === undefined)
      throw new Error(`an odd balancer: ${key}`);
    expect(balancer?.kind === "affinity").toBe(id.isSticky);
    const numbers = sorted((id.isSticky ? ids : endpoints).get(key)?.keys());
    expect(numbers).toEqual(range(0, numbers.length));
    // The last number that the chain draws exists, or it goes on to the first.
    const { method, count } = role.draw;
    expect(count).toBe(method.counts.find((one) => one >= numbers.length));
    if (method.counts === DRAW_COUNTS) expect(drawsOf(count).at(-1)).toBeLessThanOrEqual(numbers.length);
    else expect(count).toBe(numbers.length);
    if (!id.isSticky) {
      endpoints.delete(key);
      continue;
    }
    const name = LIST_NAMES.find((one) => one === id.way) ?? "cluster";
    expect(id.way).toBe(name);
    const timeouts = [0, CLIENTS_OF[name]].map((of) => roleAt(table, AFFINITY_TIMEOUTS, id.servicePort + of));
    expect(timeouts.some((timeout) => timeout?.kind === "remember")).toBe(true);
    const members = new Set(Array.from(ids.get(key)?.values() ?? [], Number));
    ids.delete(key);
    for (const member of members) {
      expect(parseId(member)).toMatchObject({ servicePort: id.servicePort, way: undefined });
      expect(endpoints.get(member)?.delete(MEMBERSHIP[name])).toBe(true);
    }
  }
  expect([...endpoints.values(), ...ids.values()].filter((rest) => rest.size > 0)).toEqual([]);
}

/** The numbers of lists of source ranges that frontends and addresses lead to. */
function usedSourceRanges({ sets }: Table): string[] {
  return [SOURCE_RANGE_LISTS, RANGES.sourceRangeLists, "ping-source-range-lists"].flatMap((map) => [
    ...(sets.get(map)?.elements.values() ?? []),
  ]);
}

function tables(ruleset: Ruleset): Table[] {
  return Object.values(ruleset);
}

test("without the option, timeouts of Services leave the bytes of the same Services without them", () => {
  fc.assert(
    fc.property(anyObjects, anyContexts, ({ services, slices }, contexts) => {
      const bytes = (given: typeof services, nodeContext: typeof contexts) =>
        JSON.stringify(rebuildTransaction(renderAll({ services: given, slices }, nodeContext).state.ruleset));
      const untimed = services.map((one) => withoutFeature(one, "connection-timeouts"));
      const off = contexts.map((context) => ({ ...context, lacking: ["connection-timeouts"] }));
      expect(bytes(services, off)).toBe(bytes(untimed, contexts));
    }),
  );
});

/** The chains of features. */
const OF_FEATURES: ReadonlySet<string> = new Set(
  testNodeContext({ settings: { answerPing: true } }).flatMap((context) =>
    context.features
      .flatMap((feature) => [feature, feature.besideSourceRanges ?? []].flat())
      .flatMap(({ chains }) => (chains?.(context) ?? []).map(({ name }) => name)),
  ),
);

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

  test("every verdict leads to a chain that exists, and every chain that is not kept is reached", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const { chains, sets } of tables(ruleset)) {
          const verdicts = [...sets.values()].flatMap(({ elements }) => [...elements.values()]);
          const targets = new Set(verdicts.map(verdictTarget).filter((target) => target !== undefined));
          expect([...targets].filter((target) => !chains.has(target))).toEqual([]);
          const rules = JSON.stringify([...chains.values()].map(({ rules }) => rules));
          const ofRules = new Set(Array.from(rules.matchAll(/"target":"([^"]+)"/g), ([, name = ""]) => name));
          expect([...ofRules].filter((name) => !chains.has(name))).toEqual([]);
          const ofServices = [...chains.keys()].filter(
            (name) => !isKept(name) && !OF_FEATURES.has(name) && chainRole(name)?.kind !== "static",
          );
          expect(ofServices.filter((name) => !targets.has(name))).toEqual([]);
        }
      }),
    );
  });

  test("every list of source ranges has a frontend or address that leads to it, and every such number a list", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const table of tables(ruleset)) {
          const used = new Set(usedSourceRanges(table).filter((number) => number !== String(ALLOWS_ALL)));
          const keys = [...(table.sets.get(SOURCE_RANGES)?.elements.keys() ?? [])];
          expect(new Set(keys.map((key) => splitParts(key)[1]))).toEqual(used);
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
            const maps = kindOf(frontend, FRONTEND_KINDS);
            const refusal = refusalAt(table, frontend, FRONTEND_KINDS);
            const { servicePort, way } = parseId(Number(text)) ?? { servicePort: 0, way: undefined };
            const has = (list: "cluster" | "local") =>
              elements(table, maps.balancers).has(String(listId(servicePort, list)));
            used.add(servicePort);
            if (way === "local" || way === "external-local") expect(has("local")).toBe(refusal === undefined);
            else expect(has("cluster") || refusal !== undefined).toBe(true);
            if (way === "external-local" && refusal !== undefined) {
              expect(has("cluster")).toBe(refusal === "no-local-endpoints");
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
        const steps = applyPlan(diffRuleset({}, ruleset), { chunkSize: size, kinds: FRONTEND_KINDS });
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
