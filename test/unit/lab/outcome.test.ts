import { describe, expect, test } from "vitest";
import { outcomeOf, type Probe, type Tally } from "../../support/lab/outcome.ts";
import { differences, loadScenario } from "../../support/lab/scenario.ts";

const fromPod: Probe = { id: "p", from: "pod1", to: "10.96.0.10", port: 80, proto: "tcp" };
const fromNode: Probe = { ...fromPod, from: "node" };
const sticky = { sticky: true } as const;

describe("the outcome of a probe", () => {
  test.each<[string, Probe, Tally, unknown]>([
    ["is refused when every connection is refused", fromPod, { refused: 2 }, { result: "refused" }],
    ["is timeout when nothing comes back", fromPod, { timeout: 2 }, { result: "timeout" }],
    [
      "joins the results of connections that end differently",
      fromPod,
      { "10.244.2.11 80 10.244.1.11": 80, refused: 10 },
      { result: "ok/refused" },
    ],
    [
      "lists endpoints in order, and tells that they saw the client's address",
      fromPod,
      { "10.244.2.11 80 10.244.1.11": 40, "10.244.1.12 80 10.244.1.11": 50 },
      { result: "ok", source: "kept", endpoints: ["10.244.1.12 80", "10.244.2.11 80"] },
    ],
    [
      "tells that an endpoint saw the pods' gateway in hairpin connections",
      fromPod,
      { "10.244.2.11 80 10.244.1.11": 40, "10.244.1.11 80 169.254.1.1": 50 },
      { result: "ok", source: "kept/node", endpoints: ["10.244.1.11 80", "10.244.2.11 80"] },
    ],
    [
      "counts any address of the node as the node's own",
      fromNode,
      { "10.244.2.11 80 198.51.100.2": 90 },
      { result: "ok", source: "kept", endpoints: ["10.244.2.11 80"] },
    ],
    [
      "tells a foreign source address as it is",
      fromPod,
      { "10.244.2.11 80 192.0.2.3": 90 },
      { result: "ok", source: "192.0.2.3", endpoints: ["10.244.2.11 80"] },
    ],
    [
      "of a sticky probe tells the number of endpoints only",
      { ...fromPod, ...sticky },
      { "10.244.2.11 80 10.244.1.11": 90 },
      { result: "ok", distinct: 1 },
    ],
    [
      "of a sticky probe from outside tells the source, too",
      { ...fromPod, ...sticky, from: "ext" },
      { "10.244.2.11 80 192.0.2.2": 90 },
      { result: "ok", source: "node", distinct: 1 },
    ],
    [
      "of a sticky probe that saw two sources tells both",
      { ...fromPod, ...sticky },
      { "10.244.2.11 80 10.244.1.11": 1, "10.244.2.12 80 192.0.2.2": 89 },
      { result: "ok", source: "kept/node", distinct: 2 },
    ],
  ])("%s", (_, probe, tally, outcome) => {
    expect(outcomeOf(probe, tally)).toEqual(outcome);
  });
});

describe("the differences from a scenario", () => {
  test("are none for the expected outcomes, and one block for each that is missing or differs", async () => {
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
