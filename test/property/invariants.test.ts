import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Family } from "../../src/base/family.ts";
import type { Ruleset, Table } from "../../src/nft/ast/ruleset.ts";
import { canonicalRule } from "../../src/nft/canonical/rule.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { splitParts, verdictTarget } from "../../src/nft/elements.ts";
import { creationSteps, rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { validateTransaction } from "../../src/nft/validate.ts";
import { parseChainName } from "../../src/ruleset/chain-names.ts";
import { NOT_BALANCED } from "../../src/ruleset/service-port-rules.ts";
import { FRONTEND_MAPS, type FrontendKind } from "../../src/ruleset/sets.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { port, renderAll, service, slice } from "../support/build.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { rulesetText } from "../support/ruleset-text.ts";

/** The first index of a list, and of the cluster-wide list of a Local frontend. */
const FIRST_INDEX = 0x8000_0000;
const FIRST_SHORTCUT_INDEX = 0x8001_0000;

const anyRuleset = fc
  .tuple(anyObjects, anyContexts)
  .map(([objects, nodeContext]) => renderAll(objects, nodeContext).state.ruleset);

function elements(table: Table, set: string): ReadonlyMap<string, string> {
  const found = table.sets.get(set);
  if (found === undefined) throw new Error(`no set ${set}`);
  return found.elements;
}

/** The numbers that a map holds for each frontend: frontend to number to value. */
function numbered(table: Table, set: string): Map<string, Map<number, string>> {
  const byFrontend = new Map<string, Map<number, string>>();
  for (const [key, value] of elements(table, set)) {
    const parts = splitParts(key);
    const number = Number(parts.pop());
    const frontend = parts.join(" . ");
    byFrontend.set(frontend, (byFrontend.get(frontend) ?? new Map<number, string>()).set(number, value));
  }
  return byFrontend;
}

const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);

interface Dispatch {
  readonly frontend: string;
  readonly count: number;
  readonly sticky: boolean;
  readonly offset: number;
}

/** What the verdicts of one way in promise: how many endpoints of which list. */
function dispatches(table: Table, maps: (typeof FRONTEND_MAPS)[FrontendKind]): Dispatch[] {
  return [maps.services, maps.shortcut].flatMap((map) =>
    [...elements(table, map)].flatMap(([frontend, verdict]) => {
      if (verdict === NOT_BALANCED) return [];
      const role = parseChainName(verdictTarget(verdict) ?? "");
      if (role?.kind !== "balancer") throw new Error(`an odd verdict: ${verdict}`);
      const { shortcut, count, affinitySeconds } = role.balancer;
      const offset = map === maps.shortcut ? FIRST_SHORTCUT_INDEX : FIRST_INDEX;
      expect(shortcut).toBe(offset === FIRST_SHORTCUT_INDEX);
      return { frontend, count, sticky: affinitySeconds > 0, offset };
    }),
  );
}

/** Every number that a balancer may draw has an endpoint, and no endpoint is without a balancer. */
function checkEndpoints(table: Table, maps: (typeof FRONTEND_MAPS)[FrontendKind]): void {
  const endpoints = numbered(table, maps.endpoints);
  const ids = numbered(table, maps.affinityIds);
  const expected = new Map<string, number[]>();
  for (const { frontend, count, sticky, offset } of dispatches(table, maps)) {
    const drawn = range(offset, count);
    const numbers = sticky ? drawn.map((index) => Number(ids.get(frontend)?.get(index))) : drawn;
    expected.set(frontend, [...(expected.get(frontend) ?? []), ...numbers]);
    if (sticky) for (const index of drawn) ids.get(frontend)?.delete(index);
  }
  // Several slots may lead to one endpoint id.
  const sorted = (numbers: Iterable<number>) => [...new Set(numbers)].sort((a, b) => a - b);
  expect(new Map([...endpoints].map(([frontend, known]) => [frontend, sorted(known.keys())]))).toEqual(
    new Map([...expected].map(([frontend, numbers]) => [frontend, sorted(numbers)])),
  );
  expect([...ids.values()].filter((rest) => rest.size > 0)).toEqual([]);
}

function tables(ruleset: Ruleset): Table[] {
  return Object.values(ruleset);
}

describe("in every ruleset", () => {
  test("every verdict leads to a chain that exists, and every balancer and firewall chain is used", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const { chains, sets } of tables(ruleset)) {
          const verdicts = [...sets.values()].flatMap(({ elements }) => [...elements.values()]);
          const targets = new Set(verdicts.map(verdictTarget).filter((target) => target !== undefined));
          expect([...targets].filter((target) => !chains.has(target))).toEqual([]);
          const rules = JSON.stringify([...chains.values()].map(({ rules }) => rules));
          const perUse = [...chains.keys()].filter((name) =>
            /balance-|affinity-|slots-|round-robin-|-hash-|firewall-.*\//.test(name),
          );
          expect(perUse.filter((name) => !targets.has(name))).toEqual([]);
          for (const [, name = ""] of rules.matchAll(/"target":"([^"]+)"/g)) expect(chains.has(name)).toBe(true);
        }
      }),
    );
  });

  test("a frontend has exactly the endpoints that its balancer may draw", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const table of tables(ruleset))
          for (const maps of Object.values(FRONTEND_MAPS)) checkEndpoints(table, maps);
      }),
    );
  });

  test("a refused frontend is not balanced, and only frontends that are balanced or refused have external treatment", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        for (const table of tables(ruleset)) {
          for (const maps of Object.values(FRONTEND_MAPS)) {
            const [services, external, shortcut, refused] = [
              maps.services,
              maps.external,
              maps.shortcut,
              maps.noEndpoints,
            ].map((map) => elements(table, map));
            for (const [key, verdict] of refused ?? []) {
              expect([undefined, NOT_BALANCED]).toContain(services?.get(key));
              if (shortcut?.has(key)) expect(verdict).toBe("goto drop-chain");
            }
            for (const [key, verdict] of external ?? []) {
              const isLocal = verdict.endsWith("external-local");
              expect(shortcut?.has(key)).toBe(isLocal);
              expect(services?.has(key) || (isLocal && refused?.has(key))).toBe(true);
            }
            for (const key of shortcut?.keys() ?? []) expect(external?.has(key)).toBe(true);
          }
        }
      }),
    );
  });

  test("every rule is in canonical form and every transaction passes its schema", () => {
    fc.assert(
      fc.property(anyRuleset, (ruleset) => {
        const rules = tables(ruleset).flatMap(({ chains }) => [...chains.values()].flatMap((chain) => chain.rules));
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

  test("that rebuilds turns any tables into the desired ones, except for stale chains", () => {
    fc.assert(
      fc.property(anyRuleset, anyRuleset, (one, other) => {
        const kernel = new FakeKernel();
        kernel.apply(rebuildTransaction(one));
        kernel.apply(rebuildTransaction(other));
        for (const table of Object.values(kernel.ruleset)) {
          for (const name of table.chains.keys()) if (!other[table.family]?.chains.has(name)) table.chains.delete(name);
        }
        expect(rulesetText(kernel.ruleset)).toBe(rulesetText(other));
      }),
    );
  });

  test("in chunks gives the same tables in either order of the chunks, with base chains last", () => {
    fc.assert(
      fc.property(anyRuleset, fc.integer({ min: 1, max: 20 }), fc.boolean(), (ruleset, size, isReversed) => {
        const kernel = new FakeKernel();
        const { declaration, elements, activation } = creationSteps(diffRuleset({}, ruleset), size);
        const chunks = isReversed ? [...elements].reverse() : [...elements];
        for (const chunk of [declaration, ...chunks, activation]) {
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
