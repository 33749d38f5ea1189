import fc from "fast-check";
import { expect, test } from "vitest";
import { compareKeys, firstSorted } from "../../../src/base/first-sorted.ts";

test("firstSorted returns the items that sorting puts first", () => {
  const most = fc.oneof(fc.nat(10), fc.constant(Number.POSITIVE_INFINITY));
  fc.assert(
    fc.property(fc.uniqueArray(fc.string({ maxLength: 3 })), most, (texts, count) => {
      const expected = [...texts].sort((a, b) => (a < b ? -1 : 1)).slice(0, count);
      expect(firstSorted(texts, count, (text) => text)).toEqual(expected);
    }),
  );
});

test("compareKeys sorts by the first key that differs, numbers as numbers", () => {
  const sorted = [
    ["a", 9, "z"],
    ["a", 10, "a"],
    ["a", 10, "b"],
    ["b", 0, "a"],
  ];
  expect([...sorted].reverse().sort(compareKeys)).toEqual(sorted);
  expect(compareKeys(["a", 1], ["a", 1])).toBe(0);
});
