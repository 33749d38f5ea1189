import { describe, expect, test } from "vitest";
import { evaluate } from "../../../src/trace/evaluate.ts";
import { LAB_NODE, packetOf, probeOutcomes } from "../../support/expect.ts";
import { loadScenario, type ScenarioName } from "../../support/lab/scenario.ts";
import { townRuleset } from "../../support/town-ruleset.ts";

const TOWNS: readonly ScenarioName[] = ["town", "town-after"];
const scenarios = await Promise.all(TOWNS.map(async (name) => ({ name, ...(await loadScenario(name)) })));

describe.each(scenarios)(
  "the rules rendered for $name treat as kube-proxy did the packets of",
  ({ name, probes, expect: recorded }) => {
    const tables = Object.values(townRuleset(name));

    test.each(probes)("$id", (probe) => {
      const outcomes = probeOutcomes(tables, probe);
      expect(outcomes).toEqual(outcomes.map(() => recorded[probe.id]));
      expect(outcomes.length).toBeGreaterThan(0);
    });

    test("every probe so that no mark and no priority leaves the node", () => {
      const left = probes.flatMap((probe) =>
        evaluate(tables, LAB_NODE, packetOf(probe)).flatMap((outcome) =>
          outcome.kind === "delivered" && !outcome.local
            ? [{ mark: outcome.mark, priority: outcome.priority }]
            : [],
        ),
      );
      expect(left.length).toBeGreaterThan(100);
      expect(left).toEqual(left.map(() => ({ mark: 0, priority: 0 })));
    });
  },
);
