import { describe, expect, test } from "vitest";
import { NamespaceTokens } from "../../../src/base/namespace-tokens.ts";
import { ManualClock } from "../../support/manual-clock.ts";

describe("the tokens of namespaces", () => {
  const setUp = (burst: number) => {
    const clock = new ManualClock();
    const tokens = new NamespaceTokens(clock, { burst, refillMs: 1000 });
    const taken = (namespace: string, tries: number) =>
      Array.from({ length: tries }, () => tokens.take(namespace)?.left).filter((left) => left !== undefined);
    return { clock, taken };
  };

  test("are a fixed number for each namespace, and refill by one after each interval up to this number", () => {
    const { clock, taken } = setUp(3);
    expect([taken("a", 5), taken("b", 5)]).toEqual([
      [2, 1, 0],
      [2, 1, 0],
    ]);
    clock.advance(1999);
    expect(taken("a", 5)).toEqual([0]);
    clock.advance(1);
    expect(taken("a", 5)).toEqual([0]);
    clock.advance(60_000);
    expect(taken("a", 5)).toEqual([2, 1, 0]);
  });

  test("are shared by all namespaces beyond the 100 recent ones, so that memory is bounded", () => {
    const { clock, taken } = setUp(2);
    for (let number = 0; number < 100; number++) expect(taken(`ns-${number}`, 3)).toHaveLength(2);
    const shared = Array.from({ length: 1000 }, (_, number) => taken(`more-${number}`, 3).length);
    expect(shared.reduce((sum, count) => sum + count, 0)).toBe(2);
    clock.advance(2000);
    expect(taken("more-7", 3)).toHaveLength(2);
    expect(taken("more-8", 3)).toHaveLength(2);
  });
});
