import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { AnyTable } from "../../../src/nft/ast/any-table.ts";
import type { Transaction } from "../../../src/nft/ast/json.ts";
import { anyTables } from "../../../src/nft/canonical/any-tables.ts";
import { applyTransaction } from "../../support/apply-transaction.ts";
import { probeOutcomes } from "../../support/expect.ts";
import { loadScenario } from "../../support/lab/scenario.ts";

const { probes, expect: recorded } = await loadScenario("town");

function fixture(path: string): string {
  return readFileSync(new URL(`../../fixtures/${path}`, import.meta.url), "utf8");
}

const transaction = JSON.parse(fixture("town/transaction.json")) as Transaction;
const tables: Readonly<Record<string, readonly AnyTable[]>> = {
  "our rules": Object.values(applyTransaction({}, transaction)),
  "kube-proxy's rules": ["ip", "ip6"].flatMap((family) =>
    anyTables(fixture(`kube-proxy/town.listed.${family}.json`)),
  ),
};

describe.each(Object.entries(tables))(
  "the evaluator predicts from %s the recorded outcome of",
  (_, rules) => {
    test.each(probes)("$id", (probe) => {
      const outcomes = probeOutcomes(rules, probe);
      expect(outcomes).toEqual(outcomes.map(() => recorded[probe.id]));
      expect(outcomes.length).toBeGreaterThan(0);
    });
  },
);
