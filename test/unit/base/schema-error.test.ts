import fc from "fast-check";
import { expect, test } from "vitest";
import { describeSchemaError, joinPath, quoted, splitPath } from "../../../src/base/schema-error.ts";

test("paths are written as people write them", () => {
  const path = ["spec", "ports", 0, "a.b/c"].reduce<string>(joinPath, "");
  expect(path).toBe('spec.ports[0]["a.b/c"]');
  expect(splitPath(path)).toEqual(["spec", "ports", "0", "a.b/c"]);
  expect(splitPath("")).toEqual([]);
});

test("any keys come back from a path", () => {
  fc.assert(
    fc.property(fc.array(fc.string()), (keys) => {
      expect(splitPath(keys.reduce(joinPath, ""))).toEqual(keys);
    }),
  );
});

test("a pointer's escapes are undone", () => {
  const error = { instancePath: "/metadata/labels/a~1b~0c/0", keyword: "x", params: {} };
  expect(describeSchemaError(error)).toEqual({ path: 'metadata.labels["a/b~c"][0]', reason: "violates x" });
});

test("values are shown short, and on one line", () => {
  expect(quoted("a\n")).toBe('"a\\n"');
  expect(quoted("x".repeat(81))).toBe(`"${"x".repeat(80)}"...`);
  expect([quoted(null), quoted(1.5), quoted(true), quoted([1]), quoted({ a: 1 })]).toEqual([
    "null",
    "1.5",
    "true",
    "an array",
    "an object",
  ]);
});
