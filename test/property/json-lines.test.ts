import fc from "fast-check";
import { expect, test } from "vitest";
import { parseJson } from "../../src/kube/files/json.ts";

/** Finds lines in the last document of a text. */
function linesOf(text: string) {
  const lineOf = parseJson(text, "a.json", false).at(-1)?.lineOf;
  return (keys: readonly string[]) => lineOf?.(keys);
}

/** A value with every path in it and the line of each, as JSON.stringify with an indent lays them out. */
interface LaidOut {
  readonly lines: number;
  readonly places: readonly { readonly keys: readonly string[]; readonly line: number }[];
}

function layOut(value: unknown, line: number): LaidOut {
  if (typeof value !== "object" || value === null || Object.keys(value).length === 0)
    return { lines: 1, places: [] };
  let next = line + 1;
  const places = Object.entries(value).flatMap(([key, member]) => {
    const at = next;
    const within = layOut(member, at);
    next += within.lines;
    return [
      { keys: [key], line: at },
      ...within.places.map((place) => ({ ...place, keys: [key, ...place.keys] })),
    ];
  });
  return { lines: next - line + 1, places };
}

/** Texts full of what ends texts and values. */
const tricky = fc.string({
  unit: fc.constantFrom('"', "\\", "{", "}", "[", "]", ",", ":", "\n", " ", "a", "é", "\u2028"),
});
const { value: anyJson } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(null, true, false, 0, -1.5e-9, ""),
    tricky,
    fc.array(tie("value"), { maxLength: 4 }),
    fc
      .uniqueArray(fc.tuple(tricky, tie("value")), { selector: ([key]) => key, maxLength: 4 })
      .map(Object.fromEntries),
  ),
}));

test("the line of every path in a JSON text is found", () => {
  fc.assert(
    fc.property(anyJson, fc.integer({ min: 0, max: 3 }), (value, before) => {
      const start = "\n".repeat(before);
      const text = `${start}${JSON.stringify(value, null, 1)}`;
      const lineOf = linesOf(text);
      expect(lineOf([])).toBe(before + 1);
      for (const { keys, line } of layOut(value, before + 1).places) expect(lineOf(keys)).toBe(line);
    }),
  );
});

test("a missing path of a JSON text has the line of its deepest existing part", () => {
  const lineOf = linesOf('{\n "a": [\n  1,\n  {"b": 2}\n ]\n}');
  expect([["a", "7"], ["a", "1", "c"], ["a", "0", "x"], ["z"]].map(lineOf)).toEqual([2, 4, 3, 1]);
});

test("a document that nests too deeply for a tree has no lines", () => {
  expect(linesOf(`{"a": ${"[".repeat(50_000)}${"]".repeat(50_000)}}`)(["a"])).toBeUndefined();
});

test("lines of a second document are counted from the beginning of the text", () => {
  expect(linesOf('{"a": 1}\n\n{\n "b": 2}')(["b"])).toBe(4);
});
