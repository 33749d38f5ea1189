import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { endpointIds, placed } from "../../../src/ruleset/endpoint-numbers.ts";
import { FIRST_ENDPOINT, MOST_STICKY_ENDPOINTS } from "../../../src/ruleset/list-ids.ts";

const values = fc
  .uniqueArray(fc.constantFrom(..."abcdefghijklmnop"), { minLength: 1 })
  .map((list) => list.sort());

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

  test("gives the same if the earlier values are given sorted, too", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.constantFrom(..."abcdefghijklmnopxyz")), values, (previous, list) => {
        expect(placed(previous, list, previous.toSorted())).toEqual(placed(previous, list));
      }),
    );
  });
});

const NONE = new Map<string, number>();
const targets = (count: number) =>
  Array.from({ length: count }, (_, i) => `10.244.${i >> 8}.${i & 255} . 8080`);

describe("endpointIds", () => {
  test.each([1, 1000, MOST_STICKY_ENDPOINTS])("are unique and above the ways (%s endpoints)", (count) => {
    const ids = [...endpointIds(targets(count), NONE).values()];
    expect(new Set(ids).size).toBe(count);
    expect(Math.min(...ids)).toBeGreaterThanOrEqual(FIRST_ENDPOINT);
    expect(Math.max(...ids)).toBeLessThan(0x4000);
  });

  test("stay the same when others come and go, even if they would have been another's", () => {
    const all = targets(3000);
    const before = endpointIds(all.slice(1000), NONE);
    const after = endpointIds(all.slice(0, 2500), before);
    expect(after.size).toBe(2500);
    for (const target of all.slice(1000, 2500)) expect(after.get(target)).toBe(before.get(target));
    expect(new Set(after.values()).size).toBe(2500);
  });

  test("depend on the targets alone where none is known", () => {
    const all = targets(3000);
    expect([...endpointIds(all, NONE)]).toEqual([...endpointIds([...all], NONE)]);
  });

  test("that are known, but no ids or another's, are not taken over", () => {
    const [one = "", two = "", three = ""] = targets(3);
    const known = new Map([
      [one, 100],
      [two, 100],
      [three, 3],
    ]);
    const ids = endpointIds([one, two, three], known);
    expect(ids.get(one)).toBe(100);
    expect(ids.get(two)).not.toBe(100);
    expect(ids.get(three)).not.toBe(3);
  });
});
