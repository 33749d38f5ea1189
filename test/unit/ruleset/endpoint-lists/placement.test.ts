import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { placed } from "../../../../src/ruleset/endpoint-lists/placement.ts";

const values = fc.uniqueArray(fc.constantFrom(..."abcdefghijklmnop"), { minLength: 1 }).map((list) => list.sort());

describe("placed", () => {
  test("a list without a history is as it is given", () => {
    const list = ["a", "b", "c"];
    expect(placed([], list)).toBe(list);
    expect(placed(["x", "y", "z"], list)).toBe(list);
  });

  test("a new value takes the next index", () => {
    expect(placed(["a", "c"], ["a", "b", "c"])).toEqual(["a", "c", "b"]);
  });

  test("the last value moves into a hole", () => {
    expect(placed(["a", "b", "c", "d"], ["a", "c", "d"])).toEqual(["a", "d", "c"]);
  });

  test("a value that replaces another takes its index", () => {
    expect(placed(["c", "b", "a"], ["a", "c", "d"])).toEqual(["c", "d", "a"]);
  });

  test("a value that is there twice keeps its first index", () => {
    expect(placed(["b", "b", "a"], ["a", "b", "c"])).toEqual(["b", "c", "a"]);
  });

  test("always has each value once, and moves no more than it must", () => {
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
