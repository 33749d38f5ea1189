import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { excessEntries } from "../../../src/ruleset/affinity-share.ts";

describe("excessEntries", () => {
  test.each<[string, Record<string, number>, Record<string, number>]>([
    ["of a map that is 90 % full are none", { a: 80, b: 10 }, {}],
    ["of a fuller one are those of the service port with the most", { a: 81, b: 10 }, { a: 11 }],
    [
      "are those of several that have as many as each other then",
      { a: 50, b: 40, c: 5, d: 1 },
      { a: 13, b: 3 },
    ],
    ["leave all as many where all have as many", { a: 50, b: 50 }, { a: 10, b: 10 }],
  ])("%s", (_, counts, excess) => {
    expect(Object.fromEntries(excessEntries(new Map(Object.entries(counts)), 100))).toEqual(excess);
  });

  test("make room, and none of them are of a service port with fewer than another one is left", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 1000 }), { maxLength: 30 }),
        fc.integer({ min: 1, max: 5000 }),
        (given, size) => {
          const counts = new Map(given.map((count, port) => [port, count]));
          const excess = excessEntries(counts, size);
          const left = given.map((count, port) => count - (excess.get(port) ?? 0));
          const total = left.reduce((sum, count) => sum + count, 0);
          if (excess.size === 0) expect(total).toBeLessThanOrEqual(0.9 * size);
          else expect(total).toBeLessThanOrEqual(0.8 * size);
          const least = Math.min(...[...excess.keys()].map((port) => left[port] ?? 0));
          for (const [port, count] of left.entries())
            if (!excess.has(port)) expect(count).toBeLessThanOrEqual(least + 1);
          for (const count of left) expect(count).toBeGreaterThanOrEqual(0);
        },
      ),
    );
  });
});
