import fc from "fast-check";
import { expect, test } from "vitest";
import { firstSorted } from "../../../src/base/first-sorted.ts";

test("firstSorted returns the items that sorting puts first", () => {
  const most = fc.oneof(fc.nat(10), fc.constant(Number.POSITIVE_INFINITY));
  fc.assert(
    fc.property(fc.uniqueArray(fc.string({ maxLength: 3 })), most, (texts, count) => {
      const expected = [...texts].sort((a, b) => (a < b ? -1 : 1)).slice(0, count);
      expect(firstSorted(texts, count, (text) => text)).toEqual(expected);
    }),
  );
});
