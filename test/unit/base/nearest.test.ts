import { expect, test } from "vitest";
import { nearest } from "../../../src/base/nearest.ts";

test.each([
  ["explan", ["apply", "explain"], "explain"],
  ["aply", ["explain", "apply"], "apply"],
  ["form", ["from", "format"], "from"],
  ["externalTrafficPolice", ["externalName", "externalTrafficPolicy"], "externalTrafficPolicy"],
  ["zebra", ["apply", "explain"], undefined],
  ["xy", ["ab"], undefined],
  ["a", [], undefined],
])("the nearest to %s of %j is %s", (word, candidates, expected) => {
  expect(nearest(word, candidates)).toBe(expected);
});
