import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonLines } from "../../src/kube/files/json-lines.ts";

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

test("jsonLines finds the line of every path in a JSON text", () => {
  fc.assert(
    fc.property(anyJson, fc.integer({ min: 0, max: 3 }), (value, before) => {
      const start = "\n".repeat(before);
      const text = `${start}${JSON.stringify(value, null, 1)}`;
      const lineOf = jsonLines(text, before === 0 ? 0 : before - 1);
      expect(lineOf([])).toBe(before + 1);
      for (const { keys, line } of layOut(value, before + 1).places) expect(lineOf(keys)).toBe(line);
    }),
  );
});

test("jsonLines gives a missing path the line of its deepest existing part", () => {
  const lineOf = jsonLines('{\n "a": [\n  1,\n  {"b": 2}\n ]\n}', 0);
  expect([["a", "7"], ["a", "1", "c"], ["a", "0", "x"], ["z"]].map(lineOf)).toEqual([2, 4, 3, 1]);
});
