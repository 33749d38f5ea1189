import { describe, expect, test } from "vitest";
import {
  AFFINITY_SECONDS,
  DRAW_COUNTS,
  drawCount,
  drawsOf,
  roundedAffinitySeconds,
} from "../../../src/ruleset/setting-grids.ts";

/** The longest timeout that a Service may have. Seconds. */
const DAY = 86_400;
/** Maximum number of endpoints with session affinity. */
const MOST_STICKY = 16_380;

const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

describe("timeouts of session affinity", () => {
  test("from 1 second to a day are rounded to one of at most 150, never shorter and at most 10 % longer", () => {
    const wrong = from(1, DAY).filter((seconds) => {
      const rounded = roundedAffinitySeconds(seconds, DAY);
      return rounded < seconds || rounded > seconds * 1.1 || !AFFINITY_SECONDS.includes(rounded);
    });
    expect(wrong).toEqual([]);
    expect(AFFINITY_SECONDS.length).toBeLessThanOrEqual(150);
  });

  test("are exact up to 60 seconds, and for the times that people write", () => {
    const exact = [...from(1, 60), 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY];
    expect(exact.map((seconds) => roundedAffinitySeconds(seconds, DAY))).toEqual(exact);
  });

  test("are an ascending grid of whole seconds, without a value twice", () => {
    expect(AFFINITY_SECONDS).toEqual([...new Set(AFFINITY_SECONDS)].sort((a, b) => a - b));
    expect(AFFINITY_SECONDS.filter((seconds) => !Number.isInteger(seconds))).toEqual([]);
    expect([AFFINITY_SECONDS[0], AFFINITY_SECONDS.at(-1)]).toEqual([1, DAY]);
  });

  test.each([
    [10_800, 3600, 3600],
    [3601, 3600, 3600],
    [62, 64, 65],
    [30, 3600, 30],
    [59, 1, 1],
  ])(
    "of %d seconds never exceed the permitted %d seconds, which are rounded up, too",
    (seconds, most, expected) => {
      expect(roundedAffinitySeconds(seconds, most)).toBe(expected);
    },
  );
});

describe("numbers of endpoints", () => {
  test("have chains of their own up to 64, and one of at most 115 up to the most with affinity", () => {
    expect(from(1, 64).map(drawCount)).toEqual(from(1, 64));
    const used = new Set(from(1, MOST_STICKY).map(drawCount));
    expect(used.size).toBeLessThanOrEqual(115);
    expect([...used].filter((count) => !DRAW_COUNTS.includes(count))).toEqual([]);
    expect(DRAW_COUNTS).toEqual([...new Set(DRAW_COUNTS)].sort((a, b) => a - b));
  });

  test("are never fewer in a chain than in a list, so that each endpoint can be drawn", () => {
    expect(from(1, 200_000).filter((endpoints) => drawCount(endpoints) < endpoints)).toEqual([]);
  });

  test("are drawn so that the last draw always exists, and each earlier one misses in at most 12 %", () => {
    const wrong = from(1, 200_000).filter((endpoints) => {
      const draws = drawsOf(drawCount(endpoints));
      const last = draws.at(-1) ?? Number.POSITIVE_INFINITY;
      const misses = draws.slice(0, -1).map((draw) => 1 - endpoints / draw);
      return last > endpoints || misses.some((miss) => miss > 0.12);
    });
    expect(wrong).toEqual([]);
  });

  test("above 64 are drawn twice among the number of the chain, and once among the next lower one", () => {
    expect(drawsOf(64)).toEqual([64]);
    for (const [index, count] of DRAW_COUNTS.entries())
      if (count > 64) expect(drawsOf(count)).toEqual([count, count, DRAW_COUNTS[index - 1]]);
  });

  test("beyond the grid share its last number", () => {
    const last = DRAW_COUNTS.at(-1) ?? 0;
    expect(drawCount(last + 1)).toBe(last);
  });
});
