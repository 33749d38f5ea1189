import fc from "fast-check";
import { expect, test } from "vitest";
import type { ObjectCache } from "../../src/model/object-cache.ts";
import type { Transaction } from "../../src/nft/ast/json.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { rebuildTransaction, toTransaction, withoutChainDeletions } from "../../src/nft/transaction.ts";
import { validateTransaction } from "../../src/nft/validate.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import type { Conflict } from "../../src/ruleset/ruleset-state.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { bothContexts, cacheOf, type Objects, renderAll } from "../support/build.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { rulesetText } from "../support/ruleset-text.ts";

type AllObjects = Required<Objects>;
type Event = (cache: ObjectCache) => void;

const shuffled = <T>(values: readonly T[]) => fc.shuffledSubarray([...values], { minLength: values.length });

const inTwoOrders = anyObjects.chain((objects) =>
  fc.record({
    objects: fc.constant(objects),
    reordered: fc.record({ services: shuffled(objects.services), slices: shuffled(objects.slices) }),
  }),
);

test("a fresh rendering has the same bytes whatever the order of the objects", () => {
  fc.assert(
    fc.property(inTwoOrders, anyContexts, ({ objects, reordered }, nodeContext) => {
      const [one, other] = [objects, reordered].map((given) => renderAll(given, nodeContext).state.ruleset);
      expect(JSON.stringify(rebuildTransaction(other ?? {}))).toBe(JSON.stringify(rebuildTransaction(one ?? {})));
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

/** One stretch of a life: where it leads, in which order, where it is split, and whether the kernel hears of it. */
const stretch = fc.record({
  objects: anyObjects,
  nodeContext: fc.option(anyContexts, { freq: 1 }),
  order: fc.array(fc.record({ rank: fc.nat(), updates: fc.boolean() }), { minLength: 24, maxLength: 24 }),
  reachesKernel: fc.boolean(),
});

function live(
  renderer: Renderer,
  cache: ObjectCache,
  events: readonly Event[],
  order: readonly { rank: number; updates: boolean }[],
) {
  const ranked = events.map((event, index) => ({
    event,
    ...(order[index % order.length] ?? { rank: 0, updates: false }),
  }));
  for (const { event, updates } of ranked.sort((a, b) => a.rank - b.rank)) {
    event(cache);
    if (updates) renderer.update(cache.takeDirty());
  }
  renderer.update(cache.takeDirty());
}

/** Tells the kernel what is pending, chains that fell out of use last, as kernels before 6.2 need it. */
function commit(kernel: FakeKernel, renderer: Renderer): void {
  const { main, deletions } = withoutChainDeletions(renderer.state.pending());
  for (const deltas of [main, deletions]) applyValid(kernel, toTransaction(deltas));
  renderer.state.committed();
}

function applyValid(kernel: FakeKernel, transaction: Transaction): void {
  validateTransaction(transaction);
  kernel.apply(transaction);
}

const told = (conflicts: readonly Conflict[]) =>
  conflicts.map(({ family, frontend, winner, losers }) => [family, frontend, winner.key, losers.map(({ key }) => key)]);

test("a long history leads to the rules, conflicts and kernel of a fresh start", () => {
  fc.assert(
    fc.property(fc.array(stretch, { minLength: 1, maxLength: 5 }), (stretches) => {
      let nodeContext = bothContexts();
      let before: AllObjects = { services: [], slices: [] };
      const cache = cacheOf(before);
      const renderer = new Renderer(cache, nodeContext);
      const kernel = new FakeKernel();
      applyValid(kernel, toTransaction(diffRuleset(kernel.ruleset, renderer.state.ruleset)));
      renderer.state.committed();
      let committed = rulesetText(renderer.state.ruleset);
      for (const { objects, nodeContext: changed, order, reachesKernel } of stretches) {
        live(renderer, cache, eventsBetween(before, objects), order);
        before = objects;
        if (changed !== null) {
          nodeContext = changed;
          renderer.setNodeContext(nodeContext);
        }
        expect(rulesetText(renderer.state.committedRuleset())).toBe(committed);
        if (!reachesKernel) continue;
        commit(kernel, renderer);
        committed = rulesetText(kernel.ruleset);
      }
      commit(kernel, renderer);
      const fresh = renderAll(before, nodeContext).state;
      expect(rulesetText(renderer.state.ruleset)).toBe(rulesetText(fresh.ruleset));
      expect(told(renderer.state.conflicts())).toEqual(told(fresh.conflicts()));
      expect(rulesetText(kernel.ruleset)).toBe(rulesetText(fresh.ruleset));
      expect(renderer.state.pending()).toEqual([]);
    }),
  );
});

test("an equal object put again leaves nothing pending", () => {
  fc.assert(
    fc.property(anyObjects, anyContexts, (objects, nodeContext) => {
      const cache = cacheOf(objects);
      const renderer = new Renderer(cache, nodeContext);
      renderer.update(cache.takeDirty());
      renderer.state.committed();
      for (const event of eventsBetween(objects, objects)) event(cache);
      renderer.update(cache.takeDirty());
      renderer.setNodeContext(nodeContext);
      expect(renderer.state.pending()).toEqual([]);
    }),
  );
});
