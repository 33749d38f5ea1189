import { describe, expect, test } from "vitest";
import { outcomeOf, type Probe, type Tally } from "../../support/lab/outcome.ts";
import { differences, loadScenario } from "../../support/lab/scenario.ts";

const fromPod: Probe = { id: "p", from: "pod1", to: "10.96.0.10", port: 80, proto: "tcp" };
const fromNode: Probe = { ...fromPod, from: "node" };
const sticky = { sticky: true } as const;

describe("the outcome of a probe", () => {
  test.each<[string, Probe, Tally, unknown]>([
    ["refused", fromPod, { refused: 2 }, { result: "refused" }],
    ["nothing came back", fromPod, { timeout: 2 }, { result: "timeout" }],
    [
      "connections fare differently",
      fromPod,
      { "10.244.2.11 80 10.244.1.11": 80, refused: 10 },
      { result: "ok/refused" },
    ],
    [
      "endpoints sorted, client's address kept",
      fromPod,
      { "10.244.2.11 80 10.244.1.11": 40, "10.244.1.12 80 10.244.1.11": 50 },
      { result: "ok", source: "kept", endpoints: ["10.244.1.12 80", "10.244.2.11 80"] },
    ],
    [
      "hairpin: masqueraded with the pods' gateway",
      fromPod,
      { "10.244.2.11 80 10.244.1.11": 40, "10.244.1.11 80 169.254.1.1": 50 },
      { result: "ok", source: "kept/node", endpoints: ["10.244.1.11 80", "10.244.2.11 80"] },
    ],
    [
      "any of its own addresses counts as the node's own",
      fromNode,
      { "10.244.2.11 80 198.51.100.2": 90 },
      { result: "ok", source: "kept", endpoints: ["10.244.2.11 80"] },
    ],
    [
      "a stranger's address is told",
      fromPod,
      { "10.244.2.11 80 192.0.2.3": 90 },
      { result: "ok", source: "192.0.2.3", endpoints: ["10.244.2.11 80"] },
    ],
    [
      "sticky: the number of endpoints only",
      { ...fromPod, ...sticky },
      { "10.244.2.11 80 10.244.1.11": 90 },
      { result: "ok", distinct: 1 },
    ],
    [
      "sticky from outside: the source too",
      { ...fromPod, ...sticky, from: "ext" },
      { "10.244.2.11 80 192.0.2.2": 90 },
      { result: "ok", source: "node", distinct: 1 },
    ],
    [
      "sticky that moved between sources",
      { ...fromPod, ...sticky },
      { "10.244.2.11 80 10.244.1.11": 1, "10.244.2.12 80 192.0.2.2": 89 },
      { result: "ok", source: "kept/node", distinct: 2 },
    ],
  ])("%s", (_, probe, tally, outcome) => {
    expect(outcomeOf(probe, tally)).toEqual(outcome);
  });
});

describe("the differences from a scenario", () => {
  test("are none for what was expected, and one block for each that is missing or other", async () => {
    const town = await loadScenario("town");
    const outcomes = new Map(Object.entries(town.expect));
    expect(differences(town, outcomes)).toEqual([]);
    const [missing, other] = [...outcomes.keys()] as [string, string];
    outcomes.delete(missing);
    outcomes.set(other, { result: "refused" });
    const [first, second, ...rest] = differences(town, outcomes);
    expect(rest).toEqual([]);
    expect(first).toContain(missing);
    expect(first).toContain("seen     nothing");
    expect(second).toContain('seen     {"result":"refused"}');
  });
});
