import fc from "fast-check";
import { expect, test } from "vitest";
import type { EndpointSlice } from "../../src/model/endpoint-slice.ts";
import type { ObjectCache } from "../../src/model/object-cache.ts";
import type { Service } from "../../src/model/service.ts";
import type { Transaction } from "../../src/nft/ast/json.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { deltaSize, diffRuleset, isEmptyDelta } from "../../src/nft/delta.ts";
import { splitParts } from "../../src/nft/elements.ts";
import type { ObjectChange } from "../../src/nft/table-objects.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { validateTransaction } from "../../src/nft/transaction-text.ts";
import { adoptNumbers } from "../../src/ruleset/adopt-numbers.ts";
import { withoutObjectDeletions } from "../../src/ruleset/apply-plan.ts";
import type { Conflict } from "../../src/ruleset/family-state.ts";
import { parseFrontendKey } from "../../src/ruleset/keys.ts";
import { LIST_NAMES, memberKey, parseId } from "../../src/ruleset/list-ids.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { AFFINITY_IDS, BALANCERS, ENDPOINTS, LISTS, NO_ENDPOINTS } from "../../src/ruleset/sets.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import {
  cacheOf,
  localEndpoint,
  named,
  type Objects,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
  withoutStaleRanges,
} from "../support/build.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { isKept, rulesetText, textWithoutPlacement } from "../support/ruleset-text.ts";

type AllObjects = Required<Objects>;
type Event = (cache: ObjectCache) => void;

const shuffled = <T>(values: readonly T[]) => fc.shuffledSubarray([...values], { minLength: values.length });

const inTwoOrders = anyObjects.chain((objects) =>
  fc.record({
    objects: fc.constant(objects),
    reordered: fc.record({ services: shuffled(objects.services), slices: shuffled(objects.slices) }),
  }),
);

test("rendering gives the same bytes for the same objects in any order", () => {
  fc.assert(
    fc.property(inTwoOrders, anyContexts, ({ objects, reordered }, nodeContext) => {
      const [one, other] = [objects, reordered].map((given) => renderAll(given, nodeContext).state.ruleset);
      expect(JSON.stringify(rebuildTransaction(other ?? {}))).toBe(
        JSON.stringify(rebuildTransaction(one ?? {})),
      );
    }),
  );
});

/** What leads from one cluster to the next, in no particular order: what stays is put again. */
function eventsBetween(before: AllObjects, after: AllObjects): Event[] {
  const services = new Set(after.services.map(({ name }) => name));
  const slices = new Set(after.slices.map(({ service, name }) => `${service} ${name}`));
  return [
    ...before.services
      .filter(({ name }) => !services.has(name))
      .map(
        ({ name }): Event =>
          (w) =>
            w.deleteService(name),
      ),
    ...before.slices
      .filter(({ service, name }) => !slices.has(`${service} ${name}`))
      .map(
        (slice): Event =>
          (w) =>
            w.deleteSlice(slice),
      ),
    ...after.services.map(
      (service): Event =>
        (w) =>
          w.putService(service),
    ),
    ...after.slices.map(
      (slice): Event =>
        (w) =>
          w.putSlice(slice),
    ),
  ];
}

type Updates = "no" | "whole" | "in part";

/**
 * One stretch of a life: where it leads, in which order, where it is split, and whether the kernel hears of
 * it.
 */
const stretch = fc.record({
  objects: anyObjects,
  nodeContext: fc.option(anyContexts, { freq: 1 }),
  order: fc.array(
    fc.record({ rank: fc.nat(), updates: fc.constantFrom<Updates>("no", "whole", "in part") }),
    {
      minLength: 24,
      maxLength: 24,
    },
  ),
  reachesKernel: fc.boolean(),
});

function live(
  renderer: Renderer,
  cache: ObjectCache,
  events: readonly Event[],
  order: readonly { rank: number; updates: Updates }[],
) {
  const ranked = events.map((event, index) => ({
    event,
    ...(order[index % order.length] ?? { rank: 0, updates: "no" }),
  }));
  for (const { event, updates } of ranked.sort((a, b) => a.rank - b.rank)) {
    event(cache);
    if (updates === "in part") for (const _ of renderer.updating(cache.takeDirty(), undefined, 1));
    else if (updates === "whole") renderer.update(cache.takeDirty());
  }
  renderer.update(cache.takeDirty());
}

/**
 * Tells the kernel what is pending, chains that fell out of use last, as some kernels before 6.2 need it. A
 * packet that is under way meanwhile may have read a list id before and look its endpoints up after it: no id
 * changes hands in between.
 */
function commit(kernel: FakeKernel, renderer: Renderer, owners: Map<string, string | undefined>): void {
  const { main, objectDeletions } = withoutObjectDeletions(renderer.state.pending());
  for (const deltas of [main, objectDeletions]) applyValid(kernel, toTransaction(deltas));
  const before = new Map(owners);
  owners.clear();
  for (const state of Object.values(renderer.state.families)) {
    for (const id of state.table.sets.get(BALANCERS)?.elements.keys() ?? []) {
      const key = `${state.table.family} ${id}`;
      owners.set(key, state.ownerOfList(Number(id))?.key);
      expect([undefined, owners.get(key)]).toContain(before.get(key));
    }
  }
  renderer.state.markCommitted();
}

function applyValid(kernel: FakeKernel, transaction: Transaction): void {
  validateTransaction(transaction);
  kernel.apply(transaction);
}

/** The NodePorts of each family, as a state keeps them, and as its tables have them. */
const nodePortsOf = ({ state }: Renderer) =>
  Object.values(state.families).map(({ nodePorts }) => [...nodePorts].sort());
const nodePortsIn = (ruleset: Ruleset) =>
  Object.values(ruleset).map(({ sets }) => {
    const keys = [LISTS, NO_ENDPOINTS].flatMap((name) => [...(sets.get(name)?.elements.keys() ?? [])]);
    return [...new Set(keys.filter((key) => parseFrontendKey(key).address === undefined))].sort();
  });

const told = (conflicts: readonly Conflict[]) =>
  conflicts.map(({ family, frontend, winner, losers }) => [
    family,
    frontend,
    winner.key,
    losers.map(({ key }) => key),
  ]);

/** The frontends that service ports lose, as text. */
const lostIn = (conflicts: readonly Conflict[]) =>
  conflicts.flatMap(({ frontend, losers }) => losers.map(({ key }) => `${frontend} ${key}`)).sort();

/** Verifies that what a state says of changed conflicts leads from the known ones to those that there are. */
function followConflicts({ state }: Renderer, known: Set<string>): void {
  const conflicts = state.conflicts();
  const { count, begun, ended } = state.takeConflictChanges();
  for (const { frontend, loser } of ended) expect(known.delete(`${frontend} ${loser.key}`)).toBe(true);
  for (const { frontend, loser } of begun) {
    expect(known).not.toContain(`${frontend} ${loser.key}`);
    known.add(`${frontend} ${loser.key}`);
  }
  expect([...known].sort()).toEqual(lostIn(conflicts));
  expect(count).toBe(known.size);
  const winners = new Map(
    conflicts.flatMap(({ frontend, winner, losers }) =>
      losers.map((loser) => [`${frontend} ${loser.key}`, winner.key]),
    ),
  );
  for (const { frontend, loser, winner } of begun)
    expect(winner.key).toBe(winners.get(`${frontend} ${loser.key}`));
  expect(state.losingServices()).toEqual(
    new Set(conflicts.flatMap(({ losers }) => losers.map(({ service }) => service.name))),
  );
}

test("any history of changes ends in the rules, conflicts and kernel tables of a fresh start", () => {
  fc.assert(
    fc.property(fc.array(stretch, { minLength: 1, maxLength: 5 }), (stretches) => {
      let nodeContext = testNodeContext();
      let before: AllObjects = { services: [], slices: [] };
      const cache = cacheOf(before);
      const renderer = new Renderer(cache, nodeContext);
      const kernel = new FakeKernel();
      applyValid(kernel, toTransaction(diffRuleset(kernel.ruleset, renderer.state.ruleset)));
      renderer.state.markCommitted();
      let committed = rulesetText(renderer.state.ruleset);
      const owners = new Map<string, string | undefined>();
      const lost = new Set<string>();
      for (const { objects, nodeContext: changed, order, reachesKernel } of stretches) {
        live(renderer, cache, eventsBetween(before, objects), order);
        before = objects;
        if (changed !== null) {
          nodeContext = changed;
          for (const _ of renderer.changingContext(nodeContext));
        }
        expect(rulesetText(renderer.state.committedRuleset())).toBe(committed);
        if (!reachesKernel) continue;
        followConflicts(renderer, lost);
        commit(kernel, renderer, owners);
        committed = rulesetText(kernel.ruleset);
      }
      followConflicts(renderer, lost);
      commit(kernel, renderer, owners);
      withoutStaleRanges(renderer);
      commit(kernel, renderer, owners);
      const fresh = withoutStaleRanges(renderAll(before, nodeContext)).state;
      expect(lostIn(renderer.state.conflicts())).toEqual(lostIn(fresh.conflicts()));
      expect(nodePortsOf(renderer)).toEqual(nodePortsIn(fresh.ruleset));
      expect(textWithoutPlacement(renderer.state.ruleset)).toBe(textWithoutPlacement(fresh.ruleset));
      expect(told(renderer.state.conflicts())).toEqual(told(fresh.conflicts()));
      expect(rulesetText(kernel.ruleset)).toBe(rulesetText(renderer.state.ruleset));
      expect(renderer.state.pending()).toEqual([]);
      // A restart takes ids and numbers over, and at most adds chains that nothing leads to.
      const repairs = adoptNumbers(fresh, kernel.ruleset).map((delta) => {
        const isRepair = ({ kind, name, after }: ObjectChange) => kind !== "chain" || !after || !isKept(name);
        return { ...delta, objects: delta.objects.filter(isRepair) };
      });
      expect(repairs.filter((delta) => !isEmptyDelta(delta))).toEqual([]);
    }),
  );
});

test("an equal object put into the cache again leaves nothing pending", () => {
  fc.assert(
    fc.property(anyObjects, anyContexts, (objects, nodeContext) => {
      const cache = cacheOf(objects);
      const renderer = new Renderer(cache, nodeContext);
      renderer.update(cache.takeDirty());
      withoutStaleRanges(renderer).state.markCommitted();
      for (const event of eventsBetween(objects, objects)) event(cache);
      renderer.update(cache.takeDirty());
      for (const _ of renderer.changingContext(nodeContext));
      expect(renderer.state.pending()).toEqual([]);
    }),
  );
});

const anyEndpoints = fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 40 });

/**
 * A Service with all kinds of lists: cluster IP, NodePort and load-balancer IP, the last two with a short
 * cut.
 */
function placedService(numbers: readonly number[], affinitySeconds: number): AllObjects {
  const options = {
    loadBalancerIPs: ["203.0.113.1"],
    ports: [port(80, { nodePort: 30080 })],
    external: "Local",
  } as const;
  const endpoints = numbers.map((number) =>
    number % 3 === 0 ? localEndpoint(addressOf(number)) : addressOf(number),
  );
  return { services: [service({ ...options, affinitySeconds })], slices: [slice({ endpoints })] };
}

const addressOf = (number: number) => `10.244.2.${number}`;

/** The target at each number of every list; fails when a list has a gap. */
function placements(ruleset: Ruleset): Map<string, string[]> {
  const lists = new Map<string, string[]>();
  for (const { family, sets } of Object.values(ruleset)) {
    const elements = (name: string) => [...(sets.get(name)?.elements ?? [])];
    const parsed = (key: string) => splitParts(key).map(Number) as [id: number, number: number];
    const members = new Map(elements(ENDPOINTS));
    const numbered = [...elements(ENDPOINTS), ...elements(AFFINITY_IDS)].flatMap(([key, value]) => {
      const [id, number] = parsed(key);
      const { way, isSticky } = parseId(id) ?? {};
      // The endpoints of sticky lists by their ids have no numbers.
      if (way === undefined) return [];
      const name = LIST_NAMES.find((one) => one === way);
      const target = isSticky && name ? members.get(memberKey(Number(value), name)) : value;
      return [{ list: `${family} ${way}`, number, target: target ?? "nothing" }];
    });
    for (const { list, number, target } of numbered.sort((a, b) => a.number - b.number)) {
      const values = lists.get(list) ?? [];
      expect(number).toBe(values.length);
      lists.set(list, [...values, target]);
    }
  }
  return lists;
}

test("any history of endpoints ends in lists of the chosen ones without gaps, and moves at most two entries for each change", () => {
  fc.assert(
    fc.property(
      fc.array(anyEndpoints, { minLength: 2, maxLength: 8 }),
      fc.constantFrom(0, 600),
      (history, seconds) => {
        const cache = cacheOf({ services: [], slices: [] });
        const renderer = new Renderer(cache, testNodeContext());
        let known: readonly number[] = [];
        for (const numbers of history) {
          const objects = placedService(numbers, seconds);
          for (const one of objects.services) cache.putService(one);
          for (const one of objects.slices) cache.putSlice(one);
          const before = placements(renderer.state.ruleset);
          renderer.update(cache.takeDirty());
          const after = placements(renderer.state.ruleset);
          const fresh = placements(renderAll(objects).state.ruleset);
          const sorted = (lists: Map<string, string[]>) =>
            new Map([...lists].map(([list, all]) => [list, [...all].sort()]));
          expect(sorted(after)).toEqual(sorted(fresh));
          const changes =
            new Set([...known, ...numbers]).size - known.filter((one) => numbers.includes(one)).length;
          for (const [list, values] of after) {
            const earlier = before.get(list) ?? [];
            const length = Math.max(values.length, earlier.length);
            const touched = Array.from({ length }, (_, i) => values[i] !== earlier[i]).filter(Boolean).length;
            if (earlier.length > 0) expect(touched).toBeLessThanOrEqual(2 * changes);
          }
          known = numbers;
        }
      },
    ),
  );
});

test("a restart moves no endpoint to another index, whatever the history before it", () => {
  fc.assert(
    fc.property(
      fc.array(anyEndpoints, { minLength: 2, maxLength: 6 }),
      fc.constantFrom(0, 600),
      (history, seconds) => {
        const cache = cacheOf({ services: [], slices: [] });
        const renderer = new Renderer(cache, testNodeContext());
        for (const numbers of history) {
          const { services, slices } = placedService(numbers, seconds);
          for (const one of services) cache.putService(one);
          for (const one of slices) cache.putSlice(one);
          renderer.update(cache.takeDirty());
        }
        const kernel = renderer.state.ruleset;
        const { state } = renderAll(placedService(history.at(-1) ?? [], seconds));
        expect(adoptNumbers(state, kernel)).toEqual([]);
      },
    ),
  );
});

test("a restart repairs numbers in the kernel that are missing, foreign or double, and changes no other element", () => {
  const objects = placedService([1, 2, 4, 5, 7], 0);
  const { state } = renderAll(objects);
  const kernel = new FakeKernel();
  applyValid(kernel, rebuildTransaction(state.ruleset));
  const endpoints = kernel.ruleset.ip?.sets.get(ENDPOINTS)?.elements;
  const id = Number(kernel.ruleset.ip?.sets.get(LISTS)?.elements.get("10.96.0.10 . tcp . 80"));
  const at = (number: number) => `${id} . ${number}`;
  endpoints?.set(at(0), "10.244.2.2 . 8080");
  endpoints?.set(at(1), "10.244.2.1 . 8080");
  endpoints?.set(at(2), "10.9.9.9 . 99");
  endpoints?.set(at(4), "10.244.2.2 . 8080");
  const { state: restarted } = renderAll(objects);
  const deltas = adoptNumbers(restarted, kernel.ruleset);
  expect(deltas.flatMap(({ elements }) => elements.flatMap(({ added }) => added))).toEqual([
    { key: at(2), value: "10.244.2.4 . 8080" },
    { key: at(4), value: "10.244.2.7 . 8080" },
  ]);
  expect(deltaSize(deltas)).toEqual({ chains: 0, sets: 0, elements: 4 });
});

/** A change of a Service that may have long lists. */
const longChange = fc.record({
  name: fc.constantFrom("a", "b"),
  change: fc.oneof(
    fc.record({
      kind: fc.constant("endpoints" as const),
      first: fc.nat(3000),
      count: fc.constantFrom(0, 3, 9000),
    }),
    fc.record({ kind: fc.constant("affinity" as const), affinitySeconds: fc.constantFrom(0, 60) }),
    fc.constant({ kind: "deleted" as const }),
  ),
  updates: fc.constantFrom(0, 1, "all" as const),
  reachesKernel: fc.boolean(),
});

test("long lists come and go in portions, never share an id, and end as at a fresh start", () => {
  fc.assert(
    fc.property(fc.array(longChange, { minLength: 2, maxLength: 8 }), (changes) => {
      const nodeContext = testNodeContext({ features: [] });
      const cache = cacheOf({});
      const renderer = new Renderer(cache, nodeContext);
      const kernel = new FakeKernel();
      applyValid(kernel, toTransaction(diffRuleset(kernel.ruleset, renderer.state.ruleset)));
      renderer.state.markCommitted();
      const owners = new Map<string, string | undefined>();
      const services = new Map<string, Service>();
      const slices = new Map<string, EndpointSlice>();
      for (const { name, change, updates, reachesKernel } of changes) {
        const clusterIPs = [`10.96.0.${name === "a" ? 1 : 2}`];
        if (change.kind === "deleted") {
          cache.deleteService(named(name));
          services.delete(name);
        } else if (change.kind === "affinity") {
          services.set(name, service({ name, clusterIPs, affinitySeconds: change.affinitySeconds }));
        } else {
          if (!services.has(name)) services.set(name, service({ name, clusterIPs }));
          const addresses = Array.from({ length: change.count }, (_, i) => change.first + i);
          const endpoints = addresses.map((i) => `10.1.${i >> 8}.${i & 255}`);
          slices.set(name, slice({ service: name, endpoints, family: "ip" }));
        }
        for (const one of services.values()) cache.putService(one);
        for (const one of slices.values()) cache.putSlice(one);
        const portion = updates === "all" ? Number.POSITIVE_INFINITY : 1;
        if (updates !== 0) for (const _ of renderer.updating(cache.takeDirty(), undefined, portion));
        if (!reachesKernel) continue;
        commit(kernel, renderer, owners);
        verifyLists(renderer, kernel);
      }
      do {
        for (const _ of renderer.updating(cache.takeDirty(), undefined, 1));
        commit(kernel, renderer, owners);
      } while (renderer.waiting.size > 0 || renderer.state.hasStale);
      verifyLists(renderer, kernel);
      const objects = { services: [...services.values()], slices: [...slices.values()] };
      expect(textWithoutPlacement(kernel.ruleset)).toBe(
        textWithoutPlacement(renderAll(objects, nodeContext).state.ruleset),
      );
    }),
    { numRuns: 20 },
  );
});

/** Verifies that each list that a frontend leads to has the endpoints of its rules, and each once. */
function verifyLists({ state }: Renderer, kernel: FakeKernel): void {
  const sets = kernel.ruleset.ip?.sets;
  const elements = (name: string) => [...(sets?.get(name)?.elements ?? [])];
  const numbered = new Map<number, string[]>();
  const members = new Map(elements(ENDPOINTS));
  for (const [key, value] of [...elements(ENDPOINTS), ...elements(AFFINITY_IDS)]) {
    const [id = 0, number = 0] = splitParts(key).map(Number);
    const { way, isSticky } = parseId(id) ?? {};
    if (way === undefined) continue;
    const targets = numbered.get(id) ?? [];
    expect(targets[number]).toBeUndefined();
    targets[number] = (isSticky ? members.get(memberKey(Number(value), "cluster")) : value) ?? "nothing";
    numbered.set(id, targets);
  }
  for (const id of new Set(elements(LISTS).map(([, value]) => Number(value)))) {
    const owner = state.families.ip?.ownerOfList(id);
    const rules = owner && state.families.ip?.servicePortRules(owner.key);
    expect([...(numbered.get(id) ?? [])].sort()).toEqual(rules?.lists.cluster?.targets);
  }
}
