import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { evaluate } from "../../src/trace/evaluate.ts";
import { applyTransaction } from "../support/apply-transaction.ts";
import { LAB_NODE, packetOf, tallyOf } from "../support/expect.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import type { Probe, Tally } from "../support/lab/outcome.ts";
import { randomRules, randomRulesProbes } from "../support/random-rules.ts";

/** What the evaluator holds possible, against what a probe's connections met; undefined when they agree. */
function disagreement(ruleset: Ruleset, probe: Probe, seen: Tally): string | undefined {
  const packet = packetOf(probe);
  const possible = Object.keys(tallyOf(packet, evaluate(ruleset, LAB_NODE, packet))).sort();
  const met = Object.keys(seen).sort();
  // Where some connections get no answer, a probe stops after two of them and may not meet all there is.
  const agree = possible.every((answer) => answer.includes(" "))
    ? met.join() === possible.join()
    : met.every((answer) => possible.includes(answer));
  return agree ? undefined : `${probe.id}: evaluator ${possible.join()}; kernel ${met.join()}`;
}

describe("the evaluator and the kernel agree", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await createLab();
  });
  afterAll(() => lab?.close());

  const samples = fc
    .sample(randomRules, { numRuns: 10, seed: 54 })
    .map((transaction, i) => ({ number: i + 1, transaction }));

  test.each(samples)("on random rules, set $number", async ({ transaction }) => {
    await lab.loadTransaction(JSON.stringify(transaction));
    // Flows of the rules before keep the translation that they got.
    await lab.exec(["conntrack", "-F"]);
    const ruleset = applyTransaction({}, transaction);
    const seen = await lab.observe(randomRulesProbes);
    expect(
      randomRulesProbes.flatMap((probe) => disagreement(ruleset, probe, seen.get(probe.id) ?? {}) ?? []),
    ).toEqual([]);
  });

  test("on rules that treat packets in all ways that there are", () => {
    const kinds = new Set(
      samples.flatMap(({ transaction }) => {
        const ruleset = applyTransaction({}, transaction);
        return randomRulesProbes.flatMap((probe) => {
          const outcomes = evaluate(ruleset, LAB_NODE, packetOf(probe));
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
