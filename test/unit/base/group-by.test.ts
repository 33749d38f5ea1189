import { expect, test } from "vitest";
import { addToCount, addToSet, groupBy, removeFromSet, setNewest } from "../../../src/base/group-by.ts";

test("groups and their items keep their original order", () => {
  const groups = groupBy(["b1", "a1", "b2", "a2", "c1"], (text) => text[0]);
  expect([...groups]).toEqual([
    ["b", ["b1", "b2"]],
    ["a", ["a1", "a2"]],
    ["c", ["c1"]],
  ]);
});

test("a count that returns to 0 is deleted", () => {
  const counts = new Map<string, number>();
  expect([addToCount(counts, "a", 2), addToCount(counts, "b", 1), addToCount(counts, "a", -2)]).toEqual([
    2, 1, 0,
  ]);
  expect([...counts]).toEqual([["b", 1]]);
});

test("a set that becomes empty is deleted, and others stay", () => {
  const sets = new Map<string, Set<number>>();
  addToSet(sets, "a", 1);
  addToSet(sets, "a", 2);
  addToSet(sets, "b", 3);
  expect([removeFromSet(sets, "a", 1), removeFromSet(sets, "b", 3), removeFromSet(sets, "b", 3)]).toEqual([
    true,
    true,
    false,
  ]);
  expect([...sets]).toEqual([["a", new Set([2])]]);
});

test("beyond a number of entries, the one that was set longest ago is deleted", () => {
  const entries = new Map<string, number>();
  for (const [value, key] of ["a", "b", "a", "c"].entries()) setNewest(entries, key, value, 2);
  expect([...entries]).toEqual([
    ["a", 2],
    ["c", 3],
  ]);
});
