import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RANGES } from "../../src/features/port-ranges/rules.ts";
import { SliceEndpoints } from "../../src/model/endpoint-slice.ts";
import { serviceOf } from "../../src/model/ids.ts";
import { compareAge, type Service } from "../../src/model/service.ts";
import { parseId } from "../../src/ruleset/list-ids.ts";
import type { FamilyContext } from "../../src/ruleset/node-context.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { BALANCERS } from "../../src/ruleset/sets.ts";
import { anyObjects } from "../support/arbitraries.ts";
import {
  cacheOf,
  elementCount,
  type Objects,
  renderAll,
  testNodeContext,
  withoutStaleRanges,
} from "../support/build.ts";
import { textWithoutPlacement } from "../support/ruleset-text.ts";

/** Node contexts whose budgets are short for some of {@link anyObjects}. */
const tightContexts: fc.Arbitrary<FamilyContext[]> = fc
  .record({
    maxServiceElements: fc.constantFrom(40, 150_000),
    maxElements: fc.constantFrom(20, 40, 80, 400),
    maxNamespaceElements: fc.constantFrom(20, 40, 400),
    maxStickyPorts: fc.constantFrom(1, 2, 3, 100),
    settings: fc.record({ maxPortRanges: fc.constantFrom(1, 2, 4, 100) }),
  })
  .map((options) => testNodeContext(options));

const outcomeOf = ({ state, excess }: Renderer) => ({
  rules: textWithoutPlacement(state.ruleset),
  excess: Object.fromEntries(excess),
  without: state.budgets.features.map(({ name }) => Object.fromEntries(state.budgets.without(name))),
});

type AllObjects = Required<Objects>;

/**
 * Puts everything that is in `after` and deletes all else, in an order by `ranks`, with updates in between.
 */
function change(
  renderer: Renderer,
  cache: ReturnType<typeof cacheOf>,
  after: AllObjects,
  ranks: readonly number[],
) {
  const wanted = new Set(after.services.map(({ name }) => name));
  const slices = new Set(after.slices.map(({ service, name }) => `${service} ${name}`));
  const events = [
    ...cache.serviceNames().flatMap((name) => (wanted.has(name) ? [] : [() => cache.deleteService(name)])),
    ...cache
      .allSlices()
      .flatMap((one) => (slices.has(`${one.service} ${one.name}`) ? [] : [() => cache.deleteSlice(one)])),
    ...after.services.map((one) => () => cache.putService(one)),
    ...after.slices.map((one) => () => cache.putSlice(one)),
  ].map((event, index) => ({ event, rank: ranks[index % ranks.length] ?? 0 }));
  for (const { event, rank } of events.sort((a, b) => a.rank - b.rank)) {
    event();
    if (rank % 2 === 0) renderer.update(cache.takeDirty());
  }
  renderer.update(cache.takeDirty());
}

const step = fc.record({
  objects: anyObjects,
  nodeContext: fc.option(tightContexts, { freq: 2 }),
  ranks: fc.array(fc.nat(), { minLength: 24, maxLength: 24 }),
  isCommitted: fc.boolean(),
});

describe("budgets that Services share", () => {
  test("depend only on current objects and options, whatever came before, with the same rules and reasons", () => {
    fc.assert(
      fc.property(tightContexts, fc.array(step, { minLength: 1, maxLength: 5 }), (first, steps) => {
        let context = first;
        const cache = cacheOf({});
        const renderer = new Renderer(cache, context);
        for (const { objects, nodeContext, ranks, isCommitted } of steps) {
          change(renderer, cache, objects, ranks);
          if (nodeContext !== null) {
            // The number of ids is that of the kernel's numbers, which does not change.
            context = nodeContext.map((each, i) => ({
              ...each,
              maxStickyPorts: first[i]?.maxStickyPorts ?? 0,
            }));
            for (const _ of renderer.changingContext(context));
          }
          withoutStaleRanges(renderer);
          if (isCommitted) renderer.state.markCommitted();
          const fresh = withoutStaleRanges(renderAll(objects, context));
          expect(outcomeOf(renderer)).toEqual(outcomeOf(fresh));
        }
      }),
    );
  });

  test("are never exceeded, and no older Service loses anything to a newer one", () => {
    fc.assert(
      fc.property(anyObjects, tightContexts, ({ services, slices }, context) => {
        const { state, excess } = renderAll({ services, slices }, context);
        const [{ maxElements = 0, maxNamespaceElements = 0, maxStickyPorts = 0, settings = {} } = {}] =
          context;
        const unserved = new Set(Array.from(excess.keys(), serviceOf));
        const sums = new Map<string, number>();
        for (const one of services.filter(({ name }) => !unserved.has(name))) {
          const count = elementCount(
            one,
            slices.filter((each) => each.service === one.name),
            context,
          );
          for (const scope of ["", one.name.split("/")[0] ?? ""])
            sums.set(scope, (sums.get(scope) ?? 0) + count);
        }
        for (const [scope, sum] of sums) {
          expect(sum).toBeLessThanOrEqual(scope === "" ? maxElements : maxNamespaceElements);
        }
        for (const { table } of Object.values(state.families)) {
          const ids = [...(table.sets.get(BALANCERS)?.elements.keys() ?? [])].map((id) =>
            parseId(Number(id)),
          );
          const sticky = new Set(ids.flatMap((id) => (id?.isSticky ? [id.servicePort] : [])));
          expect(sticky.size).toBeLessThanOrEqual(maxStickyPorts);
          // An older range may divide a younger one.
          const { maxPortRanges = 0 } = settings as { maxPortRanges?: number };
          expect(table.sets.get(RANGES.lists)?.elements.size ?? 0).toBeLessThanOrEqual(2 * maxPortRanges);
        }
        const byAge = services.toSorted(compareAge);
        const reasonOf = (renderer: Renderer, { name }: Service) => [
          renderer.state.budgets.excessOf(name),
          renderer.state.budgets.features.map((feature) =>
            [...renderer.state.budgets.without(feature.name)].filter(([key]) => serviceOf(key) === name),
          ),
        ];
        const whole = renderAll({ services, slices }, context);
        for (const [index, one] of byAge.entries()) {
          const older = renderAll({ services: byAge.slice(0, index + 1), slices }, context);
          expect(reasonOf(older, one)).toEqual(reasonOf(whole, one));
        }
      }),
    );
  });

  test("stay the same when the readiness of an endpoint changes", () => {
    fc.assert(
      fc.property(anyObjects, tightContexts, fc.boolean(), ({ services, slices }, context, ready) => {
        const flipped = slices.map((each) => ({
          ...each,
          endpoints: new SliceEndpoints(
            [...each.endpoints].map((endpoint) => ({
              ...endpoint,
              ready,
              serving: ready,
              terminating: !ready,
            })),
          ),
        }));
        const [before, after] = [slices, flipped].map((each) => {
          const { rules: _, ...reasons } = outcomeOf(renderAll({ services, slices: each }, context));
          return reasons;
        });
        expect(after).toEqual(before);
      }),
    );
  });
});
