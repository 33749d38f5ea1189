import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Transaction } from "../../../src/nft/ast/json.ts";
import { applyTransaction } from "../../support/apply-transaction.ts";
import { probeOutcomes } from "../../support/expect.ts";
import { loadScenario } from "../../support/lab/scenario.ts";

const { probes, expect: recorded } = await loadScenario("town");
const transaction = readFileSync(new URL("../../fixtures/town/transaction.json", import.meta.url), "utf8");
const ruleset = applyTransaction({}, JSON.parse(transaction) as Transaction);

describe("the evaluator predicts the recorded outcome of", () => {
  test.each(probes)("$id", (probe) => {
    const outcomes = probeOutcomes(ruleset, probe);
    expect(outcomes).toEqual(outcomes.map(() => recorded[probe.id]));
    expect(outcomes.length).toBeGreaterThan(0);
  });
});
