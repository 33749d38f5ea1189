import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import fc from "fast-check";
import { expect, test } from "vitest";
import { explanationText } from "../../src/cli/commands/explanation-text.ts";
import { PLAIN } from "../../src/cli/terminal.ts";
import { explain } from "../../src/inspect/explain/explain.ts";
import { type ExplainInput, hostOf } from "../../src/inspect/explain/explain-input.ts";
import type { Cause, Explanation } from "../../src/inspect/explain/explanation.ts";
import { connectionOf } from "../../src/inspect/explain/packet.ts";
import type { FeatureRefusal } from "../../src/ruleset/refusal-causes.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { isEcho } from "../../src/trace/packet.ts";
import { anyContexts, anyObjects, packetsFor } from "../support/arbitraries.ts";
import { cacheOf } from "../support/build.ts";
import { runs } from "../support/property-runs.ts";

const schema = JSON.parse(
  readFileSync(new URL("../../schemas/explain.schema.json", import.meta.url), "utf8"),
);
const isAsTheSchemaSays = new Ajv().compile(schema);

/** A connection towards something that a random cluster may serve, and all that is known of that cluster. */
const anyCase = fc.tuple(anyObjects, anyContexts).chain(([objects, nodeContext]) => {
  const cache = cacheOf(objects);
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const input: ExplainInput = {
    cache,
    nodeContext,
    state: renderer.state,
    ignored: [],
    objectsKnown: true,
    loadBalancers: [],
    host: hostOf(nodeContext, ["127.0.0.1", "::1"]),
  };
  return packetsFor(objects).map(({ from, to, port, protocol }) => {
    const asked = isEcho(protocol) ? 0 : port;
    const question = { fromAddress: from.address, source: from.at, to, port: asked, protocol };
    return { input, connection: connectionOf(question, input) };
  });
});

/** Causes that say that no Service has what the connection goes to. */
const NOBODYS: readonly Cause[] = [
  "unserved-port",
  "port-ranges" as FeatureRefusal,
  "unallocated-address",
  "node-port-address",
  "not-a-service",
];

function holds({ verdict, endpoints, frontend, ...explanation }: Explanation): void {
  expect(verdict.cause).not.toBe("rules");
  const isPing = isEcho(explanation.connection.protocol);
  if (!isPing) expect(NOBODYS.includes(verdict.cause)).toBe(frontend === undefined);
  const sum = endpoints.reduce((all, { probability }) => all + probability, 0);
  expect(sum).toBeCloseTo(verdict.result === "served" && !isPing ? 1 : 0, 4);
  for (const { probability, excluded } of endpoints) {
    expect(excluded === undefined).toBe(probability > 0);
    expect(excluded?.reason).not.toBe("not-in-kernel");
  }
  const whole = { verdict, endpoints, ...(frontend === undefined ? {} : { frontend }), ...explanation };
  expect(isAsTheSchemaSays({ explanations: [whole] }), JSON.stringify(isAsTheSchemaSays.errors)).toBe(true);
}

function follow(input: ExplainInput): ExplainInput {
  const { ruleset } = input.state;
  return {
    ...input,
    live: {
      ruleset,
      affinityEntries: [],
      otherTables: { tables: [], older: { ip: 0, ip6: 0 } },
      interfaceTo: () => undefined,
    },
  };
}

test("explain names a cause for every connection to a random cluster, and shares that add up to 1 if it is served", () => {
  fc.assert(
    fc.property(anyCase, ({ input, connection }) => {
      const explanation = explain(connection, input);
      holds(explanation);
      for (const line of explanationText(explanation, { ...PLAIN, columns: 80 }).split("\n"))
        expect(line.length).toBeLessThanOrEqual(80);
    }),
    { numRuns: runs(300) },
  );
});

test("explain from the kernel's rules equals explain from the objects when the kernel is up to date", () => {
  fc.assert(
    fc.property(anyCase, ({ input, connection }) => {
      const live = explain(connection, follow(input));
      expect(live).toEqual({ ...explain(connection, input), rules: "live", differences: [] });
    }),
    { numRuns: runs(100) },
  );
});
