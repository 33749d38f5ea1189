import { describe, expect, test } from "vitest";
import { DeltaTracker } from "../../../src/ruleset/delta-tracker.ts";
import type { SourceRanges } from "../../../src/ruleset/frontend-rules.ts";
import { sourceRangesSpecs } from "../../../src/ruleset/set-specs.ts";
import { SourceRangeLists } from "../../../src/ruleset/source-range-lists.ts";
import { FIRST_SOURCE_RANGE_LIST, listIdentity, sourceRangeKey } from "../../../src/ruleset/source-ranges.ts";

import { familyContext } from "../../support/build.ts";

/** Maximum number of stale elements that are deleted at a time. */
const PORTION = 4000;

/** A list of so many prefixes; different for each letter. */
function list(letter: string, length = 2): SourceRanges {
  const first = letter.charCodeAt(0);
  const prefixes = Array.from({ length }, (_, i) => `${first}.${i >> 7}.${(i & 127) * 2}.0/24`);
  return { id: listIdentity(prefixes), prefixes };
}

const A = list("A");
const B = list("B");
const C = list("C");
const D = list("D");

/** The numbers of lists as values of elements: 1 for the first. */
const value = (number: number) => String(FIRST_SOURCE_RANGE_LIST + number);

const elementsOf = (number: number, { prefixes }: SourceRanges) =>
  prefixes.map((prefix) => sourceRangeKey(FIRST_SOURCE_RANGE_LIST + number, prefix));

/** The elements of several lists, each with its number. */
const all = (...lists: readonly (readonly [number, SourceRanges])[]) =>
  new Set(lists.flatMap(([number, one]) => elementsOf(number, one)));

const SPECS = sourceRangesSpecs(familyContext("ip"));

/** Lists of source ranges that frontends use, in a table that has nothing else. */
function create(...used: readonly SourceRanges[]) {
  const tracker = new DeltaTracker("ip", SPECS);
  const lists = new SourceRangeLists(tracker);
  const commit = () => {
    tracker.markCommitted();
    lists.markCommitted();
  };
  for (const one of used) lists.add(one);
  commit();
  const elements = () => new Set(tracker.table.sets.get("source-ranges")?.elements.keys());
  return { tracker, lists, commit, elements };
}

describe("a list of source ranges", () => {
  test("has a number, from 1, with which its prefixes are in the set of all lists", () => {
    const { lists, elements } = create();
    expect([lists.add(A), lists.add(B)]).toEqual([value(1), value(2)]);
    expect(elements()).toEqual(all([1, A], [2, B]));
    expect(elements()).toContain(`65.0.2.0 . ${value(1)} . 24`);
    expect([lists.numberOf(A.id), lists.numberOf(C.id)]).toEqual([value(1), undefined]);
  });

  test("is shared by all frontends that use it, and in use until the last is gone", () => {
    const { lists, elements } = create(A);
    expect(lists.add({ ...A })).toBe(value(1));
    expect(elements()).toEqual(all([1, A]));
    lists.remove(A);
    expect(lists.stale).toBe(0);
    lists.remove(A);
    expect(lists.stale).toBeGreaterThan(0);
  });

  test("costs the work of two elements for each prefix that is added, and none when it is deleted", () => {
    const { lists, tracker, commit } = create(A);
    lists.add(list("E", 10));
    expect(tracker.work).toBe(20);
    commit();
    lists.remove(A);
    lists.deleteStale();
    expect(tracker.work).toBe(0);
    expect(tracker.pending()).toBeDefined();
  });

  test("that is not known is not removed", () => {
    const { lists } = create(A);
    lists.remove(B);
    expect(lists.stale).toBe(0);
  });
});

describe("a stale list of source ranges", () => {
  test("keeps its elements and number, and is used again if a frontend returns", () => {
    const { lists, tracker } = create(A, B);
    lists.remove(A);
    expect(tracker.pending()).toBeUndefined();
    expect(lists.add(A)).toBe(value(1));
    lists.deleteStale();
    expect([lists.stale, tracker.pending()]).toEqual([0, undefined]);
  });

  test("is deleted with its elements, and lists in use stay", () => {
    const { lists, elements } = create(A, B, C);
    for (const one of [A, C]) lists.remove(one);
    lists.deleteStale();
    expect(elements()).toEqual(all([2, B]));
    expect(lists.stale).toBe(0);
    expect(lists.numberOf(A.id)).toBeUndefined();
  });

  test("loses 4,000 elements at a time, in the order in which lists became stale", () => {
    const [first, second, third] = [
      list("a", 0.4 * PORTION),
      list("b", 0.7 * PORTION),
      list("c", 0.9 * PORTION),
    ];
    const { lists, elements } = create(first, second, third);
    for (const one of [third, first, second]) lists.remove(one);
    const left = () =>
      [1, 2, 3].map((number) => [...elements()].filter((key) => key.includes(value(number))).length);
    const seen: number[][] = [];
    while (lists.stale > 0) {
      lists.deleteStale();
      seen.push(left());
    }
    expect(seen).toEqual([
      [0.3 * PORTION, 0.7 * PORTION, 0],
      [0, 0, 0],
    ]);
  });

  test("has several portions if it is longer than one, and gets a new number if a frontend returns meanwhile", () => {
    const long = list("L", 2.3 * PORTION);
    const { lists, elements, commit } = create(long);
    lists.remove(long);
    const sizes = [];
    for (let i = 0; i < 2; i++) {
      lists.deleteStale();
      commit();
      sizes.push(elements().size);
    }
    expect(sizes).toEqual([long.prefixes.length - PORTION, long.prefixes.length - 2 * PORTION]);
    expect(lists.add(long)).toBe(value(2));
    expect([lists.stale, elements().size]).toEqual([0.3 * PORTION, 2 * long.prefixes.length - 2 * PORTION]);
    lists.deleteStale();
    expect(elements()).toEqual(all([2, long]));
    expect([lists.stale, lists.numberOf(long.id)]).toEqual([0, value(2)]);
    commit();
    expect(lists.add(A)).toBe(value(1));
  });

  test("leaves its number to others only once the kernel has lost its elements", () => {
    const { lists, commit } = create(A);
    lists.remove(A);
    lists.deleteStale();
    expect(lists.add(B)).toBe(value(2));
    commit();
    expect([lists.add(C), lists.add(D)]).toEqual([value(1), value(3)]);
  });
});

describe("prepare", () => {
  test("writes nothing of a list that fits, and half as many prefixes of others as there may be work", () => {
    const { lists, tracker, elements, commit } = create(A);
    const long = list("E", 10);
    expect([lists.prepare(long, 20), tracker.work]).toEqual([true, 0]);
    expect([lists.prepare(long, 8), tracker.work]).toEqual([false, 8]);
    commit();
    expect([lists.prepare(long, 8), tracker.work]).toEqual([false, 8]);
    commit();
    // The last two of ten come with the frontend.
    expect([lists.prepare(long, 8), elements().size]).toEqual([true, A.prefixes.length + 8]);
    expect(lists.add(long)).toBe(value(2));
    expect(elements()).toEqual(all([1, A], [2, long]));
    expect(lists.stale).toBe(0);
  });

  test("keeps what is written for as long as it is asked for between deletions", () => {
    const { lists, elements } = create();
    const long = list("E", 10);
    for (const written of [2, 4, 6]) {
      lists.deleteStale();
      lists.prepare(long, 4);
      expect(elements().size).toBe(written);
    }
    lists.deleteStale();
    expect(elements().size).toBe(6);
    lists.deleteStale();
    expect([elements().size, lists.isAny, lists.stale]).toEqual([0, false, 0]);
  });
});

describe("adopt", () => {
  /** A table of the kernel in which lists have the numbers of their places. */
  const kernel = (...inOrder: readonly SourceRanges[]) => create(...inOrder).tracker.table;

  test("changes nothing if the kernel has the same numbers", () => {
    const { lists, tracker } = create(A, B);
    expect(lists.adopt(kernel(A, B))).toBe(false);
    expect(tracker.pending()).toBeUndefined();
  });

  test("changes nothing without any list", () => {
    const { lists, elements } = create();
    expect([lists.adopt(kernel(A, B)), elements().size, lists.stale]).toEqual([false, 0, 0]);
  });

  test("gives lists the kernel's numbers, whatever the order of its elements, so that no element differs", () => {
    const { lists, elements } = create(A, B, C, D);
    const reversed = (one: SourceRanges) => ({ ...one, prefixes: one.prefixes.toReversed() });
    const table = kernel(...[D, B, C, A].map(reversed));
    expect(lists.adopt(table)).toBe(true);
    expect([A, B, C, D].map(({ id }) => lists.numberOf(id))).toEqual([4, 2, 3, 1].map(value));
    expect(elements()).toEqual(new Set(table.sets.get("source-ranges")?.elements.keys()));
  });

  test("leaves the kernel's other lists to be deleted at once up to 4,000 elements, and keeps those beyond as stale", () => {
    const others = ["a", "b", "c", "d"].map((letter) => list(letter, 0.45 * PORTION));
    const [third = A, fourth = A] = others.slice(2);
    const { lists, elements } = create(A);
    expect(lists.adopt(kernel(...others, A))).toBe(true);
    expect(elements()).toEqual(all([3, third], [4, fourth], [5, A]));
    expect(lists.stale).toBeGreaterThan(0);
    // The kernel still has all others.
    expect(lists.add(B)).toBe(value(6));
    lists.markCommitted();
    // Now it has lost the first and the second.
    const added = [C, D, list("E")];
    expect(new Set(added.map((one) => lists.add(one)))).toEqual(new Set([1, 2, 7].map(value)));
    lists.deleteStale();
    expect(elements().size).toBe(5 * A.prefixes.length);
    lists.markCommitted();
    expect(new Set(["F", "G"].map((letter) => lists.add(list(letter))))).toEqual(new Set([3, 4].map(value)));
  });

  test("gives lists that the kernel does not have numbers that it does not have, now and until it loses others", () => {
    const { lists, elements } = create(A, B);
    expect(lists.adopt(kernel(C, D, B))).toBe(true);
    expect([A, B, C].map(({ id }) => lists.numberOf(id))).toEqual([value(4), value(3), undefined]);
    expect(elements()).toEqual(all([4, A], [3, B]));
    expect(lists.add(list("E"))).toBe(value(5));
    lists.markCommitted();
    expect(new Set([lists.add(C), lists.add(D)])).toEqual(new Set([value(1), value(2)]));
  });

  test("reads no list from a foreign number, and gives a list that the kernel has twice one number", () => {
    const { lists, elements } = create(A, B);
    const { tracker } = create(C, A);
    const put = (number: number, { prefixes }: SourceRanges) => {
      for (const prefix of prefixes) tracker.setElement("source-ranges", sourceRangeKey(number, prefix), "");
    };
    put(FIRST_SOURCE_RANGE_LIST + 7, A);
    put(7, B);
    lists.adopt(tracker.table);
    const numbers = [A, B].map(({ id }) => Number(lists.numberOf(id)) - FIRST_SOURCE_RANGE_LIST);
    expect([2, 7]).toContain(numbers[0]);
    expect(numbers[1]).toBe(3);
    expect(elements()).toEqual(all([numbers[0] ?? 0, A], [3, B]));
    expect(lists.stale).toBe(0);
  });
});
