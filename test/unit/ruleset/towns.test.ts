import { describe, expect, test } from "vitest";
import { probeOutcomes } from "../../support/expect.ts";
import { loadScenario, type ScenarioName } from "../../support/lab/scenario.ts";
import { townRuleset } from "../../support/town-ruleset.ts";

const TOWNS: readonly ScenarioName[] = ["town", "town-after"];
const scenarios = await Promise.all(TOWNS.map(async (name) => ({ name, ...(await loadScenario(name)) })));

describe.each(scenarios)(
  "the rules rendered for $name treat as kube-proxy did",
  ({ name, probes, expect: recorded }) => {
    const ruleset = townRuleset(name);

    test.each(probes)("$id", (probe) => {
      const outcomes = probeOutcomes(ruleset, probe);
      expect(outcomes).toEqual(outcomes.map(() => recorded[probe.id]));
      expect(outcomes.length).toBeGreaterThan(0);
    });
  },
);
