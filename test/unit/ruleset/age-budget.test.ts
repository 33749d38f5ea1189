import { describe, expect, test } from "vitest";
import { AgeBudget } from "../../../src/ruleset/age-budget.ts";
import { named } from "../../support/build.ts";
import { countOperations } from "../../support/operations.ts";

/** A budget with these claims: the name of a Service, its age rank, and how much it wants. */
function budgetOf(...claims: readonly (readonly [name: string, createdAt: number, amount: number])[]) {
  const budget = new AgeBudget();
  for (const [name, createdAt, amount] of claims) put(budget, name, createdAt, amount);
  return budget;
}

function put(budget: AgeBudget, name: string, createdAt: number, amount: number): void {
  budget.set(named(name), { service: { name: named(name), createdAt }, amount });
}

const short = (budget: AgeBudget) => Object.fromEntries(budget.shortfalls);

describe("a shared budget", () => {
  test("is enough for all while their sum is not more", () => {
    const budget = budgetOf(["a/one", 1, 60], ["b/two", 2, 40]);
    expect([...budget.decide({ all: 100, namespace: 60 })]).toEqual([]);
    expect(short(budget)).toEqual({});
  });

  test("counts what all claim, and the namespace that claims the most, beyond the limit, too", () => {
    const budget = budgetOf(["a/one", 1, 60], ["b/two", 2, 40], ["b/three", 3, 30]);
    budget.decide({ all: 100, namespace: 60 });
    expect([budget.claimed, budget.largest]).toEqual([130, ["b", 70]]);
    budget.set(named("b/two"), undefined);
    expect([budget.claimed, budget.largest]).toEqual([90, ["a", 60]]);
    expect(budgetOf().largest).toBeUndefined();
  });

  test("goes to the oldest, and of the same age to the first by name", () => {
    const budget = budgetOf(["b/new", 2, 50], ["b/old", 1, 50], ["a/new", 2, 50]);
    expect([...budget.decide({ all: 100, namespace: 1000 })]).toEqual(["b/new"]);
    expect(short(budget)).toEqual({ "b/new": { of: "all", budget: 100, left: 0, wanted: 50 } });
  });

  test("skips one that wants more than is left, and serves newer ones that want less", () => {
    const budget = budgetOf(["a/old", 1, 30], ["b/huge", 2, 90], ["c/small", 3, 70], ["d/last", 4, 1]);
    budget.decide({ all: 100, namespace: 1000 });
    expect(short(budget)).toEqual({
      "b/huge": { of: "all", budget: 100, left: 70, wanted: 90 },
      "d/last": { of: "all", budget: 100, left: 0, wanted: 1 },
    });
  });

  test("is the namespace's first, and what that refuses is not counted for all", () => {
    const budget = budgetOf(["a/one", 1, 40], ["a/two", 2, 40], ["a/three", 3, 40], ["b/four", 4, 20]);
    budget.decide({ all: 100, namespace: 80 });
    expect(short(budget)).toEqual({ "a/three": { of: "namespace", budget: 80, left: 0, wanted: 40 } });
  });

  test("leaves the share of a namespace whole when a Service of it does not fit into what all have", () => {
    const budget = budgetOf(["o/old", 1, 35], ["p/old", 1, 35], ["a/huge", 2, 40], ["a/small", 3, 15]);
    budget.decide({ all: 100, namespace: 50 });
    expect(short(budget)).toMatchObject({ "a/huge": { of: "all", left: 30 } });
    expect(budget.shortfalls.has(named("a/small"))).toBe(false);
  });

  test("tells whose outcome changes where an older one grows, shrinks, comes or goes", () => {
    const budget = budgetOf(["a/old", 2, 50], ["b/new", 3, 50]);
    const decide = () => [...budget.decide({ all: 100, namespace: 1000 })];
    expect(decide()).toEqual([]);
    put(budget, "a/old", 2, 51);
    expect(decide()).toEqual(["b/new"]);
    put(budget, "a/old", 2, 60);
    expect(decide()).toEqual([]);
    expect(short(budget)).toMatchObject({ "b/new": { left: 40 } });
    put(budget, "c/oldest", 1, 50);
    expect(decide().sort()).toEqual(["a/old", "b/new"]);
    budget.set(named("c/oldest"), undefined);
    put(budget, "a/old", 2, 50);
    expect(decide().sort()).toEqual(["a/old"]);
    expect(short(budget)).toEqual({});
  });

  test("is divided again for other limits, and for a Service made again at another time", () => {
    const budget = budgetOf(["a/one", 1, 50], ["b/two", 2, 50]);
    expect([...budget.decide({ all: 50, namespace: 50 })]).toEqual(["b/two"]);
    put(budget, "a/one", 3, 50);
    expect([...budget.decide({ all: 50, namespace: 50 })].sort()).toEqual(["a/one", "b/two"]);
    expect([...budget.decide({ all: 100, namespace: 50 })]).toEqual(["a/one"]);
    expect([...budget.decide({ all: 100, namespace: 49 })].sort()).toEqual(["a/one", "b/two"]);
  });

  test("costs nothing where amounts stay, and while it is enough no look at others", () => {
    const limits = { all: 10_000, namespace: 10_000 };
    const budget = budgetOf(
      ...Array.from({ length: 10_000 }, (_, i) => [`ns-${i % 10}/a${i}`, i, 1] as const),
    );
    budget.decide(limits);
    const change = (amount: number) =>
      countOperations(() => {
        put(budget, "ns-1/a1", 1, amount);
        budget.decide(limits);
      });
    expect(change(0)).toBeLessThan(100);
    expect(change(2)).toBeGreaterThan(1000);
    expect(change(2)).toBeLessThan(200);
  });
});
