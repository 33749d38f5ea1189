import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { explanationText } from "../../../../src/cli/commands/explanation-text.ts";
import { PLAIN } from "../../../../src/cli/terminal.ts";
import { explain } from "../../../../src/inspect/explain/explain.ts";
import type { ExplainInput } from "../../../../src/inspect/explain/explain-input.ts";
import type { Explanation } from "../../../../src/inspect/explain/explanation.ts";
import { connectionOf } from "../../../../src/inspect/explain/packet.ts";
import { unservedAmong } from "../../../../src/kube/decode/ignored-service.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import { LAB_NODE, packetOf } from "../../../support/expect.ts";
import type { Outcome, Probe } from "../../../support/lab/outcome.ts";
import { loadScenario, type ScenarioName } from "../../../support/lab/scenario.ts";
import { servedPorts } from "../../../support/lab/topology.ts";
import { townList } from "../../../support/stub-api/town.ts";
import { contextsOfCache, townCache } from "../../../support/town-ruleset.ts";

const TOWNS: readonly ScenarioName[] = ["town", "town-after"];
const scenarios = await Promise.all(TOWNS.map(async (name) => ({ name, ...(await loadScenario(name)) })));

const served: ReadonlySet<number> = new Set(servedPorts);

const schema = JSON.parse(
  readFileSync(new URL("../../../../schemas/explain.schema.json", import.meta.url), "utf8"),
);
const isAsTheSchemaSays = new Ajv().compile(schema);

function input(town: ScenarioName): ExplainInput {
  const cache = townCache(town);
  const nodeContext = contextsOfCache(cache);
  const services: readonly unknown[] = townList(town, "services").items;
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  return {
    cache,
    nodeContext,
    state: renderer.state,
    ...unservedAmong(services),
    objectsKnown: true,
    host: LAB_NODE,
  };
}

function explained(probe: Probe, of: ExplainInput): Explanation {
  const { from, to, port, protocol } = packetOf(probe);
  return explain(connectionOf({ fromAddress: from.address, to, port, protocol }, of), of);
}

/** Why we have no part in a connection. */
const PASSING: readonly string[] = [
  "not-a-service",
  "node-port-address",
  "loopback",
  "unserved-port",
  "other-proxy",
  "load-balancer",
];

/** What a client sees of a connection that is explained so. */
function seen(probe: Probe, { verdict: { result }, endpoints, connection }: Explanation): string {
  const used = endpoints.filter(({ probability }) => probability > 0);
  switch (result) {
    case "served":
      if (probe.sticky) return "ok, sticky";
      return used.some(({ port }) => served.has(port))
        ? `ok ${used
            .map(({ address, port }) => `${address} ${port}`)
            .sort()
            .join()}`
        : "refused";
    case "not-handled":
      return "passed";
    case "dropped":
      // Sending UDP fails at once where the packet is dropped on the sender's own way out.
      return connection.from.at === "node" && probe.proto === "udp" ? "refused" : "timeout";
    case "refused":
    case "varies":
    case "not-understood":
      return result;
  }
}

function recordedAs(probe: Probe, { result, endpoints = [] }: Outcome): string {
  if (result !== "ok") return result;
  return probe.sticky ? "ok, sticky" : `ok ${[...endpoints].sort().join()}`;
}

describe.each(scenarios)(
  "explain predicts for $name the recorded outcome of",
  ({ name, probes, expect: recorded }) => {
    const of = input(name);

    test.each(probes)("$id", (probe) => {
      const explanation = explained(probe, of);
      const outcome = recorded[probe.id] as Outcome;
      expect(explanation.connection.from.at).toBe(packetOf(probe).from.at);
      const said = seen(probe, explanation);
      // What passes us is answered by whoever is there, or nobody: never by an endpoint elsewhere.
      if (said !== "passed") {
        expect(said).toBe(recordedAs(probe, outcome));
      } else {
        expect(PASSING).toContain(explanation.verdict.cause);
        expect(outcome.endpoints ?? []).toEqual(outcome.result === "ok" ? [`${probe.to} ${probe.port}`] : []);
      }
      expect(explanation.verdict.cause).not.toBe("rules");
      expect(
        isAsTheSchemaSays({ explanations: [explanation] }),
        JSON.stringify(isAsTheSchemaSays.errors),
      ).toBe(true);
      const columns = explanationText(explanation, { ...PLAIN, columns: 80 })
        .split("\n")
        .map(({ length }) => length);
      expect(Math.max(...columns)).toBeLessThanOrEqual(80);
    });
  },
);
