import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { placed } from "../../../../src/ruleset/endpoint-lists/placement.ts";

const values = fc.uniqueArray(fc.constantFrom(..."abcdefghijklmnop"), { minLength: 1 }).map((list) => list.sort());

describe("placed", () => {
  test("leaves a list without a history as it is", () => {
    const list = ["a", "b", "c"];
    expect(placed([], list)).toBe(list);
    expect(placed(["x", "y", "z"], list)).toBe(list);
  });

  test("gives a new value the next index", () => {
    expect(placed(["a", "c"], ["a", "b", "c"])).toEqual(["a", "c", "b"]);
  });

  test("moves the last value into a gap", () => {
    expect(placed(["a", "b", "c", "d"], ["a", "c", "d"])).toEqual(["a", "d", "c"]);
  });

  test("gives a value that replaces another its index", () => {
    expect(placed(["c", "b", "a"], ["a", "c", "d"])).toEqual(["c", "d", "a"]);
  });

  test("keeps the first index of a value that occurs twice", () => {
    expect(placed(["b", "b", "a"], ["a", "b", "c"])).toEqual(["b", "c", "a"]);
  });

  test("gives each value one index, and moves none whose index is still in the list", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(..."abcdefghijklmnopxyz")), values, (previous, list) => {
        const result = placed(previous, list);
        expect([...result].sort()).toEqual(list);
        const moved = list.filter((value) => {
          const index = previous.indexOf(value);
          return index >= 0 && index < list.length && result[index] !== value;
        });
        expect(moved).toEqual([]);
      }),
    );
  });
});
