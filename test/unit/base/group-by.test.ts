import { expect, test } from "vitest";
import { groupBy } from "../../../src/base/group-by.ts";

test("groups and their items keep their original order", () => {
  const groups = groupBy(["b1", "a1", "b2", "a2", "c1"], (text) => text[0]);
  expect([...groups]).toEqual([
    ["b", ["b1", "b2"]],
    ["a", ["a1", "a2"]],
    ["c", ["c1"]],
  ]);
});
