import fc from "fast-check";
import { expect, test } from "vitest";
import { describeSchemaError, joinPath, splitPath } from "../../../src/base/schema-error.ts";
import { quoted } from "../../../src/base/text.ts";

test("joinPath writes a path as people write it, and splitPath splits it", () => {
  const path = ["spec", "ports", 0, "a.b/c"].reduce<string>(joinPath, "");
  expect(path).toBe('spec.ports[0]["a.b/c"]');
  expect(splitPath(path)).toEqual(["spec", "ports", "0", "a.b/c"]);
  expect(splitPath("")).toEqual([]);
});

test("splitPath returns the keys that joinPath joined, whatever they are", () => {
  fc.assert(
    fc.property(fc.array(fc.string()), (keys) => {
      expect(splitPath(keys.reduce(joinPath, ""))).toEqual(keys);
    }),
  );
});

test("describeSchemaError undoes the escapes of a JSON pointer", () => {
  const error = { instancePath: "/metadata/labels/a~1b~0c/0", keyword: "x", params: {} };
  expect(describeSchemaError(error)).toEqual({ path: 'metadata.labels["a/b~c"][0]', reason: "violates x" });
});

test("quoted shortens a value to one line, and shows a collection by its kind", () => {
  expect(quoted("a\n")).toBe('"a\\n"');
  expect(quoted("\u009b31m\u007f\u2028\u202e"), "what a terminal would obey").toBe(
    '"\\u009b31m\\u007f\\u2028\\u202e"',
  );
  expect(quoted("x".repeat(81))).toBe(`"${"x".repeat(80)}"...`);
  expect([quoted(null), quoted(1.5), quoted(true), quoted([1]), quoted({ a: 1 })]).toEqual([
    "null",
    "1.5",
    "true",
    "an array",
    "an object",
  ]);
});
