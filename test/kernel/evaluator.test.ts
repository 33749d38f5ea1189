import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Transaction } from "../../src/nft/ast/json.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { evaluate } from "../../src/trace/evaluate.ts";
import { applyTransaction } from "../support/apply-transaction.ts";
import { LAB_NODE, packetOf, tallyOf } from "../support/expect.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import type { Probe, Tally } from "../support/lab/outcome.ts";
import { randomRules, randomRulesProbes } from "../support/random-rules.ts";

/**
 * Compares the outcomes that the evaluator predicts with those of a probe's connections. Returns undefined if
 * they agree.
 */
function disagreement(ruleset: Ruleset, probe: Probe, seen: Tally): string | undefined {
  const packet = packetOf(probe);
  const possible = Object.keys(tallyOf(packet, evaluate(Object.values(ruleset), LAB_NODE, packet))).sort();
  const met = Object.keys(seen).sort();
  // A probe stops after two unanswered connections, so it may not see all outcomes.
  const agree = possible.every((answer) => answer.includes(" "))
    ? met.join() === possible.join()
    : met.every((answer) => possible.includes(answer));
  return agree ? undefined : `${probe.id}: evaluator ${possible.join()}; kernel ${met.join()}`;
}

describe("the evaluator and the kernel agree", () => {
  /** Two, as tests mostly wait for dropped packets. */
  let labs: readonly Lab[] = [];
  beforeAll(async () => {
    labs = await Promise.all([createLab(), createLab()]);
  });
  afterAll(() => Promise.all(labs.map((lab) => lab.close())));

  const samples = fc.sample(randomRules, { numRuns: 10, seed: 54 });
  const pairs = samples.flatMap((transaction, i) =>
    i % 2 === 0 ? [[i + 1, i + 2, [transaction, ...samples.slice(i + 1, i + 2)]] as const] : [],
  );

  async function disagreements(lab: Lab, transaction: Transaction): Promise<readonly string[]> {
    await lab.loadTransaction(JSON.stringify(transaction));
    // Deletes flows, because existing flows would keep the translation of the previous rules.
    await lab.exec(["conntrack", "-F"]);
    const ruleset = applyTransaction({}, transaction);
    const seen = await lab.observe(randomRulesProbes);
    return randomRulesProbes.flatMap((probe) => disagreement(ruleset, probe, seen.get(probe.id) ?? {}) ?? []);
  }

  test.each(pairs)("on random rules, sets %i and %i", async (_first, _second, transactions) => {
    const found = labs.map((lab, i) => disagreements(lab, transactions[i] as Transaction));
    expect(await Promise.all(found)).toEqual([[], []]);
  });

  test("on rules that cause every possible outcome", () => {
    const kinds = new Set(
      samples.flatMap((transaction) => {
        const ruleset = applyTransaction({}, transaction);
        return randomRulesProbes.flatMap((probe) => {
          const outcomes = evaluate(Object.values(ruleset), LAB_NODE, packetOf(probe));
          return outcomes.map((outcome) =>
            outcome.kind === "delivered"
              ? `${outcome.translated} ${outcome.source} ${outcome.local}`
              : outcome.kind,
          );
        });
      }),
    );
    expect([...kinds].sort()).toEqual([
      "dropped",
      "false kept false",
      "false kept true",
      "false masqueraded false",
      "false masqueraded true",
      "refused",
      "true kept false",
      "true kept true",
      "true masqueraded false",
      "true masqueraded true",
    ]);
  });
});
