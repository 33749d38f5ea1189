import { expect, test } from "vitest";
import { byNearness, nearest } from "../../../src/base/nearest.ts";

test.each([
  ["explan", ["apply", "explain"], "explain"],
  ["aply", ["explain", "apply"], "apply"],
  ["form", ["from", "format"], "from"],
  ["externalTrafficPolice", ["externalName", "externalTrafficPolicy"], "externalTrafficPolicy"],
  ["zebra", ["apply", "explain"], undefined],
  ["xy", ["ab"], undefined],
  ["a", [], undefined],
])("the name nearest to %s among %j is %s", (word, candidates, expected) => {
  expect(nearest(word, candidates)).toBe(expected);
});

test("byNearness puts the nearest names first, and equally near ones in alphabetical order", () => {
  expect(byNearness("worker-11", ["control", "worker-2", "worker-1", "worker-12"])).toEqual([
    "worker-1",
    "worker-12",
    "worker-2",
    "control",
  ]);
});
