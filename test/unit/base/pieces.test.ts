import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { pieceMeter, resultOf, sorting } from "../../../src/base/pieces.ts";

test("a piece is complete after a thousand parts", () => {
  const isPieceDone = pieceMeter();
  expect([999, 1, 999, 5000, 1].map(isPieceDone)).toEqual([false, true, false, true, false]);
});

describe("sorting", () => {
  const byTens = (a: number, b: number) => Math.floor(a / 10) - Math.floor(b / 10);

  test("gives the same as `sort`, which keeps the order of equal items", () => {
    fc.assert(
      fc.property(fc.nat(20_000), fc.nat(), (length, seed) => {
        const items = Array.from({ length }, (_, index) => (index * 7919 + seed) % 10_007);
        expect(resultOf(sorting([...items], byTens))).toEqual(items.sort(byTens));
      }),
      { numRuns: 20 },
    );
  });

  test("takes at most some ten thousand comparisons in a step", () => {
    let comparisons = 0;
    const most = { inOneStep: 0 };
    const items = Array.from({ length: 50_000 }, (_, index) => (index * 7919) % 50_021);
    const pieces = sorting(items, (a, b) => {
      comparisons++;
      return a - b;
    });
    for (let isDone = false; !isDone; ) {
      const before = comparisons;
      isDone = pieces.next().done === true;
      most.inOneStep = Math.max(most.inOneStep, comparisons - before);
    }
    expect(most.inOneStep).toBeLessThan(50_000);
  });
});
