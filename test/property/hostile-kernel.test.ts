import fc from "fast-check";
import { expect, test } from "vitest";
import { ALL_PARTS } from "../../src/features/frontends.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { joinParts } from "../../src/nft/elements.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { adoptNumbers } from "../../src/ruleset/adopt-numbers.ts";
import { withoutObjectDeletions } from "../../src/ruleset/apply-plan.ts";
import { compareRulesets } from "../../src/ruleset/ruleset-diff.ts";
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
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { renderAll } from "../support/build.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { rulesetText, textWithoutPlacement } from "../support/ruleset-text.ts";

const MOST = 0xffff_ffff;

/** Ids and numbers of all kinds: ours and those beside them, the highest of each kind, and any others. */
const anyId = fc.oneof(
  fc.integer({ min: 1, max: 40 }).map((steps) => 0x8000_0000 + steps),
  fc.integer({ min: 1, max: 8 }).map((steps) => 0xc000_0000 + 0x4000 * steps),
  fc.integer({ min: 1, max: 8 }).map((steps) => 0x8100_0000 + steps),
  fc.constantFrom(
    0,
    0x7fff_ffff,
    0x80ff_fffc,
    0x8100_0000,
    0x81ff_ffff,
    0x8200_0000,
    0xbfff_fffc,
    0xbfff_ffff,
    MOST - 0x3fff,
    MOST - 0x3ffe,
    MOST,
  ),
  fc.nat(MOST),
);
const anyNumber = fc.oneof(fc.nat(4), fc.constantFrom(0x1_0000, MOST), fc.nat(MOST));
const anyPick = fc.double({ min: 0, max: 0.999, noNaN: true });

/** The sets and maps that have ids and numbers. */
const NUMBERED = [
  LISTS,
  BALANCERS,
  ENDPOINTS,
  AFFINITY_IDS,
  AFFINITY_CHOOSERS,
  AFFINITY_TIMEOUTS,
  SOURCE_RANGE_LISTS,
  SOURCE_RANGES,
] as const;

/** An element that somebody puts into our tables: with a new key, or in place of one that is there. */
const anyElement = fc.record({
  map: fc.constantFrom(...NUMBERED),
  id: anyId,
  number: anyNumber,
  value: anyId,
  replaced: fc.option(anyPick),
});

const CHAIN = "balance-999999999";

function corrupt(
  kernel: FakeKernel,
  elements: readonly (typeof anyElement extends fc.Arbitrary<infer T> ? T : never)[],
) {
  for (const { map, id, number, value, replaced } of elements) {
    const known = kernel.ruleset.ip?.sets.get(map)?.elements;
    if (known === undefined) continue;
    const foreign = {
      [LISTS]: [`192.0.2.77 . tcp . ${1 + (number % 65535)}`, String(value)],
      [BALANCERS]: [String(id), `goto ${CHAIN}`],
      [ENDPOINTS]: [joinParts(id, number), "192.0.2.78 . 80"],
      [AFFINITY_IDS]: [joinParts(id, number), String(value)],
      [AFFINITY_CHOOSERS]: [String(id), `jump ${CHAIN}`],
      [AFFINITY_TIMEOUTS]: [String(id), `jump ${CHAIN}`],
      [SOURCE_RANGE_LISTS]: [`192.0.2.77 . tcp . ${1 + (number % 65535)}`, String(value)],
      [SOURCE_RANGES]: [joinParts("198.51.100.77", id, "32"), ""],
    }[map] as [string, string];
    const key = replaced === null ? foreign[0] : [...known.keys()][Math.floor(replaced * known.size)];
    known.set(key ?? foreign[0], foreign[1]);
  }
  kernel.ruleset.ip?.chains.set(CHAIN, { name: CHAIN, rules: [] });
}

test("a start repairs the rules and keeps no foreign number, whatever numbers are in the kernel", () => {
  fc.assert(
    fc.property(
      anyObjects,
      anyContexts,
      fc.array(anyElement, { maxLength: 12 }),
      (objects, nodeContext, elements) => {
        const right = renderAll(objects, nodeContext).state;
        const kernel = new FakeKernel();
        kernel.apply(rebuildTransaction(right.ruleset));
        corrupt(kernel, elements);
        const before: Ruleset = kernel.ruleset;
        const { state } = renderAll(objects, nodeContext);
        const { main, objectDeletions } = withoutObjectDeletions(adoptNumbers(state, before));
        compareRulesets({ ruleset: before }, { ruleset: state.ruleset, state }, ALL_PARTS);
        for (const deltas of [main, objectDeletions]) kernel.apply(toTransaction(deltas));
        expect(rulesetText(kernel.ruleset)).toBe(rulesetText(state.ruleset));
        expect(textWithoutPlacement(kernel.ruleset)).toBe(textWithoutPlacement(right.ruleset));
        expect(JSON.stringify([...rulesetNumbers(state.ruleset)])).not.toMatch(
          /192\.0\.2\.7[78]|198\.51\.100\.77/,
        );
      },
    ),
  );
});

/** The elements of all maps that have ids. */
function* rulesetNumbers({ ip }: Ruleset): Generator<readonly [string, string]> {
  for (const name of NUMBERED) yield* ip?.sets.get(name)?.elements ?? [];
}
