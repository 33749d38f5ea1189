import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { byFamily } from "../../src/base/family.ts";
import { ALL_PARTS, FRONTEND_KINDS } from "../../src/features/frontends.ts";
import { RANGES } from "../../src/features/port-ranges/rules.ts";
import { SliceEndpoints } from "../../src/model/endpoint-slice.ts";
import { familyOf } from "../../src/model/ip.ts";
import type { Rule, Transaction } from "../../src/nft/ast/json.ts";
import type { Chain, ElementSet, Ruleset, Table } from "../../src/nft/ast/ruleset.ts";
import { diffRuleset, type TableDelta } from "../../src/nft/delta.ts";
import { splitParts } from "../../src/nft/elements.ts";
import { toTransaction } from "../../src/nft/transaction.ts";
import { validateTransaction } from "../../src/nft/transaction-text.ts";
import {
  applyPlan,
  transactionsOf,
  trialTransactions,
  withoutObjectDeletions,
} from "../../src/ruleset/apply-plan.ts";
import { PORTS } from "../../src/ruleset/frontend-kinds.ts";
import type { ParsedId } from "../../src/ruleset/list-ids.ts";
import { drawMethodsIn } from "../../src/ruleset/node-context.ts";
import { frontendsOf, listIdOf, programmedFrontend } from "../../src/ruleset/programmed-frontend.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import {
  AFFINITY_CHOOSERS,
  AFFINITY_IDS,
  AFFINITY_TIMEOUTS,
  LISTS,
  SOURCE_RANGES,
} from "../../src/ruleset/sets.ts";
import { applyDeltas } from "../../src/sync/apply-deltas.ts";
import { evaluate } from "../../src/trace/evaluate.ts";
import { type Host, isEcho, type Packet } from "../../src/trace/packet.ts";
import { anyContexts, anyObjects, packetsFor } from "../support/arbitraries.ts";
import { cacheOf, type Objects } from "../support/build.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { FakeNft } from "../support/fake-nft.ts";
import { runs } from "../support/property-runs.ts";

const NODE: Host = { localAddresses: new Set(["192.0.2.2", "fd00:c0::2"]) };

/** The same Services, each EndpointSlice without its last endpoint. */
const withFewerEndpoints = ({ services, slices }: Required<Objects>): Required<Objects> => ({
  services,
  slices: slices.map((slice) => ({
    ...slice,
    endpoints: new SliceEndpoints([...slice.endpoints].slice(0, -1)),
  })),
});

/** The same Services, each without its first source range. */
const withFewerRanges = ({ services, slices }: Required<Objects>): Required<Objects> => ({
  services: services.map((one) => {
    const { loadBalancerSourceRanges: ranges } = one;
    return { ...one, loadBalancerSourceRanges: byFamily((family) => ranges[family].slice(1)) };
  }),
  slices,
});

const pairs = fc.oneof(
  fc.tuple(anyObjects, anyObjects),
  anyObjects.map((before) => [before, withFewerEndpoints(before)] as const),
  anyObjects.map((before) => [before, withFewerRanges(before)] as const),
  anyObjects.map((after) => [withFewerRanges(after), after] as const),
);

const changes = pairs.chain(([before, after]) =>
  fc.record({
    before: fc.constant(before),
    after: fc.constant(after),
    packets: fc
      .tuple(...[before, after].map((one) => fc.array(packetsFor(one), { minLength: 4, maxLength: 4 })))
      .map((each) => each.flat()),
  }),
);

/** Where a packet comes to: a target for each draw, or a word. */
function targetsOf(ruleset: Ruleset, packet: Packet): readonly string[] {
  return evaluate(Object.values(ruleset), NODE, packet).map((outcome) => {
    if (outcome.kind !== "delivered") return outcome.kind;
    return outcome.to.address === packet.to ? "untouched" : `${outcome.to.address} ${outcome.to.port}`;
  });
}

const ON_DEMAND: readonly string[] = [
  RANGES.lists,
  "endpoint-attempts",
  "client-limits",
  "connection-timeouts",
];

/**
 * The first port range, watched endpoint, limit or timeout, and the last one, change the chains that
 * packets pass: that comes at once.
 */
function changesStaticChains(deltas: readonly TableDelta[]): boolean {
  return deltas.some(({ objects }) =>
    objects.some(({ kind, name }) => kind === "set" && ON_DEMAND.includes(name)),
  );
}

const isTarget = (word: string) => word.includes(" ");

test("connections that are served, or dropped, before and after changes in steps are so after each step", () => {
  fc.assert(
    fc.property(
      changes,
      anyContexts,
      fc.integer({ min: 2, max: 12 }),
      ({ before, after, packets }, contexts, size) => {
        const cache = cacheOf(before);
        const renderer = new Renderer(cache, contexts);
        const kernel = new FakeKernel();
        renderer.update(cache.takeDirty());
        kernel.apply(toTransaction(diffRuleset({}, renderer.state.ruleset)));
        renderer.state.markCommitted();
        const ownerOf = ({ to, protocol, port }: Packet) =>
          Object.values(renderer.state.families).flatMap(
            (one) => one.frontendAt(to, protocol, port, true)?.port.key,
          );
        const ownersAtFirst = packets.map(ownerOf);
        const atFirst = packets.map((packet) => targetsOf(kernel.ruleset, packet));
        const listedAtFirst = packets.map((packet) => endpointsOf(kernel.ruleset, packet));
        for (const { name } of before.services) cache.deleteService(name);
        for (const each of before.slices) cache.deleteSlice(each);
        for (const each of after.services) cache.putService(each);
        for (const each of after.slices) cache.putSlice(each);
        renderer.update(cache.takeDirty());
        const atLast = packets.map((packet) => targetsOf(renderer.state.ruleset, packet));
        const deltas = renderer.state.pending();
        const steps = applyPlan(deltas, { chunkSize: size, kinds: FRONTEND_KINDS });
        if (changesStaticChains(deltas)) return;
        for (const step of steps.flatMap((one) => [...transactionsOf(one, size)])) {
          validateTransaction(step);
          kernel.apply(step);
          for (const [i, packet] of packets.entries()) {
            const ends = [atFirst[i] ?? [], atLast[i] ?? []];
            const now = targetsOf(kernel.ruleset, packet);
            const text = `${JSON.stringify(packet)}: ${now}`;
            // One whose address goes to another Service may meet what the earlier one has then.
            const isSame = String(ownersAtFirst[i]) === String(ownerOf(packet));
            if (isSame && ends.every((targets) => targets.includes("dropped"))) {
              expect(now.some(isTarget), text).toBe(false);
            }
            if (!ends.every((targets) => targets.every(isTarget))) continue;
            expect(now.every(isTarget), text).toBe(true);
            // A hash or another policy may choose another endpoint of the list of before or after. Its port
            // may be that of the list: if a range of the same Service port replaces the explicit port of a
            // packet, the list already has the new endpoints while the explicit port still leads to it.
            const listed = [...(listedAtFirst[i] ?? []), ...endpointsOf(renderer.state.ruleset, packet)];
            const addresses = listed.map((target) => splitParts(target)[0]);
            if (isSame) for (const target of now) expect(addresses, text).toContain(target.split(" ")[0]);
          }
        }
        expect(diffRuleset(kernel.ruleset, renderer.state.ruleset)).toEqual([]);
      },
    ),
    { numRuns: runs(60) },
  );
});

/** Maps that a packet may be looked up in twice, by the name of each for the second time. */
const TWICE: ReadonlyMap<string, string> = new Map(
  [LISTS, RANGES.lists, AFFINITY_IDS, AFFINITY_TIMEOUTS].map((name) => [name, `${name}-later`]),
);

const later = (name: string) => TWICE.get(name) ?? name;

/** The maps that lead a packet to an endpoint, in the order in which it is looked up in them. */
const WAY: readonly (readonly string[])[] = [
  [LISTS, RANGES.lists],
  [PORTS.sourceRangeLists, RANGES.sourceRangeLists],
  [SOURCE_RANGES],
  [later(LISTS), later(RANGES.lists)],
  [PORTS.balancers, RANGES.balancers],
  [AFFINITY_TIMEOUTS],
  [AFFINITY_CHOOSERS],
  [AFFINITY_IDS],
  [later(AFFINITY_TIMEOUTS)],
  [PORTS.endpoints, RANGES.endpoints],
  [later(AFFINITY_IDS)],
];

/** The chains whose rules look into {@link TWICE} for the second time: from one of their rules on. */
function laterRules({ name, rules }: Chain): readonly Rule[] {
  const isAllowed = FRONTEND_KINDS.some(({ chains }) => chains.sourceRangesAllowed === name);
  if (isAllowed) return rules;
  if (!name.includes("affinity")) return [];
  const chosen = rules.findIndex((rule) => JSON.stringify(rule).includes(`@${AFFINITY_CHOOSERS}`));
  return rules.slice(chosen + 1);
}

function lookingLater(rule: Rule): Rule {
  return JSON.parse(
    JSON.stringify(rule).replaceAll(/"@([^"]+)"/g, (_, name: string) => `"@${later(name)}"`),
  ) as Rule;
}

/**
 * What a packet meets over which a transaction comes into force: the rules that its hook had before, of which
 * new chains have none, and from one of its lookups on the elements that there are after it.
 */
function underWay(before: Ruleset, after: Ruleset, from: number): Ruleset {
  const early = new Set(WAY.slice(0, from).flat());
  const tables = Object.values(after).map((table) => {
    const old = before[table.family] ?? table;
    const chains = new Map<string, Chain>(
      [...table.chains].map(([name, chain]) => [name, { ...chain, rules: [] }]),
    );
    for (const [name, chain] of old.chains) {
      const second = laterRules(chain);
      const first = chain.rules.filter((rule) => !second.includes(rule));
      chains.set(name, { ...chain, rules: [...first, ...second.map(lookingLater)] });
    }
    const sets = new Map([...old.sets, ...table.sets]);
    for (const [name, again] of TWICE) {
      const set = (early.has(again) ? old : table).sets.get(name) ?? sets.get(name);
      if (set !== undefined) sets.set(again, set);
    }
    for (const name of early) sets.set(name, old.sets.get(name) ?? (sets.get(name) as ElementSet));
    return [table.family, { ...table, chains, sets }] as const;
  });
  return Object.fromEntries(tables);
}

/** A table in whose map of ranges packets find what they find in the second one while ranges are replaced. */
function withSecondMap(table: Table): Table {
  const [first, second] = [RANGES.lists, `${RANGES.lists}-handover`].map((name) => table.sets.get(name));
  if (first === undefined || second === undefined) return table;
  const elements = new Map([...second.elements, ...first.elements]);
  return { ...table, sets: new Map([...table.sets, [RANGES.lists, { ...first, elements }]]) };
}

/**
 * The ids of the lists to which a packet is led: by its destination, that as a NodePort, and port ranges.
 */
function listsOf(ruleset: Ruleset, { to, protocol, port }: Packet): readonly (ParsedId | undefined)[] {
  const table = ruleset[familyOf(to)];
  return table === undefined
    ? []
    : frontendsOf([table], to, protocol, port, FRONTEND_KINDS).map((key) =>
        listIdOf(table, key, FRONTEND_KINDS),
      );
}

/** The endpoints on these lists, as `address . port`; of an echo request, the node itself. */
function endpointsOf(ruleset: Ruleset, { to, protocol, port }: Packet): readonly string[] {
  const table = ruleset[familyOf(to)];
  if (isEcho(protocol)) return [...NODE.localAddresses].map((own) => `${own} . ${port}`);
  if (table === undefined) return [];
  const whole = withSecondMap(table);
  const frontends = frontendsOf([whole], to, protocol, port, FRONTEND_KINDS).map((key) =>
    programmedFrontend(whole, key, FRONTEND_KINDS, drawMethodsIn(ALL_PARTS)),
  );
  const targets = frontends.flatMap((one) =>
    Object.values(one?.lists ?? {}).flatMap((list) => [...list.targets]),
  );
  return targets.map((target) => (target.includes(" . ") ? target : `${target} . ${port}`));
}

test("a packet in flight while a change takes effect is served if it is served before and after", async () => {
  await fc.assert(
    fc.asyncProperty(changes, anyContexts, async ({ before, after, packets }, contexts) => {
      const cache = cacheOf(before);
      const renderer = new Renderer(cache, contexts);
      const fake = new FakeNft();
      renderer.update(cache.takeDirty());
      fake.kernel.apply(toTransaction(diffRuleset({}, renderer.state.ruleset)));
      renderer.state.markCommitted();
      for (const { name } of before.services) cache.deleteService(name);
      for (const each of before.slices) cache.deleteSlice(each);
      for (const each of after.services) cache.putService(each);
      for (const each of after.slices) cache.putSlice(each);
      renderer.update(cache.takeDirty());
      const states: Ruleset[] = [];
      fake.before = (run) => {
        if (run === "apply") states.push(fake.kernel.ruleset);
      };
      const deltas = renderer.state.pending();
      await applyDeltas(fake.nft, fake.tables, deltas);
      states.push(fake.kernel.ruleset);
      for (const [i, next] of states.slice(1).entries()) {
        const last = states[i] ?? {};
        for (const packet of packets) {
          const [earlier = [], later = []] = [last, next].map((ruleset) => listsOf(ruleset, packet));
          const isSame = isDeepStrictEqual(earlier, later);
          // A frontend that gets another list is served, but not one in whose place comes a range of another
          // Service.
          const isThere = [0, 1].every((key) => (earlier[key] === undefined) === (later[key] === undefined));
          if (!isSame && !(isThere && !changesStaticChains(deltas))) continue;
          const ends = [last, next].map((ruleset) => targetsOf(ruleset, packet));
          if (!ends.every((targets) => targets.every(isTarget))) continue;
          const endpoints = [last, next].flatMap((ruleset) => endpointsOf(ruleset, packet));
          for (let from = 1; from < WAY.length; from++) {
            const now = targetsOf(underWay(last, next, from), packet);
            expect(now.every(isTarget), `${JSON.stringify(packet)} ${from}: ${now}`).toBe(true);
            // One whose address goes to another Service may meet what the earlier one has then.
            if (isSame) for (const target of now) expect(endpoints).toContain(target.replace(" ", " . "));
          }
        }
      }
    }),
    { numRuns: runs(100) },
  );
});

/** The elements that a transaction adds and deletes, one by one. */
function elementsOf({ nftables }: Transaction): string[] {
  return nftables.flatMap((command) =>
    Object.entries(command).flatMap(([verb, object]) => {
      const { element } = object as { element?: { family: string; name: string; elem: readonly unknown[] } };
      return (
        element?.elem.map((one) => `${verb} ${element.family} ${element.name} ${JSON.stringify(one)}`) ?? []
      );
    }),
  );
}

test("a trial in parts tries each element, and the kernel can take each part by itself", () => {
  fc.assert(
    fc.property(
      anyObjects,
      anyObjects,
      anyContexts,
      fc.integer({ min: 1, max: 12 }),
      (before, after, contexts, size) => {
        const cache = cacheOf(before);
        const renderer = new Renderer(cache, contexts);
        renderer.update(cache.takeDirty());
        const first = toTransaction(diffRuleset({}, renderer.state.ruleset));
        renderer.state.markCommitted();
        for (const each of after.services) cache.putService(each);
        for (const each of after.slices) cache.putSlice(each);
        renderer.update(cache.takeDirty());
        const deltas = withoutObjectDeletions(renderer.state.pending()).main;
        const tried: string[] = [];
        const atFirst = new FakeKernel();
        atFirst.apply(first);
        for (const step of trialTransactions(deltas, FRONTEND_KINDS, size)) {
          validateTransaction(step);
          const kernel = new FakeKernel();
          kernel.ruleset = atFirst.ruleset;
          kernel.apply(step);
          tried.push(...elementsOf(step));
        }
        expect(new Set(tried)).toEqual(new Set(elementsOf(toTransaction(deltas))));
      },
    ),
    { numRuns: runs(60) },
  );
});
