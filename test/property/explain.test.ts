import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import fc from "fast-check";
import { expect, test } from "vitest";
import { explain } from "../../src/cli/explain/explain.ts";
import type { Cause, Explanation } from "../../src/cli/explain/explanation.ts";
import { connectionOf } from "../../src/cli/explain/packet.ts";
import { type Situation, situationOf } from "../../src/cli/explain/situation.ts";
import { PLAIN } from "../../src/cli/explain/style.ts";
import { explanationText } from "../../src/cli/explain/text.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { anyContexts, anyObjects, packetsFor } from "../support/arbitraries.ts";
import { worldOf } from "../support/build.ts";

const schema = JSON.parse(readFileSync(new URL("../../schemas/explain.schema.json", import.meta.url), "utf8"));
const isAsTheSchemaSays = new Ajv().compile(schema);

/** A connection towards something that a random world may serve, and all that is known of that world. */
const anyCase = fc.tuple(anyObjects, anyContexts).chain(([objects, contexts]) => {
  const world = worldOf(objects);
  const renderer = new Renderer(world, contexts);
  renderer.update(world.takeChanges());
  const parts = {
    world,
    contexts,
    state: renderer.state,
    passedOver: [],
    loadBalancers: [],
    hostAddresses: ["127.0.0.1", "::1"],
  };
  return packetsFor(objects).map(({ from, to, port, protocol }) => {
    const situation = situationOf(parts);
    const question = { fromAddress: from.address, source: from.at, to, port, protocol };
    return { situation, connection: connectionOf(question, situation) };
  });
});

/** Causes that say that no Service has what the connection goes to. */
const NOBODYS: readonly Cause[] = ["unserved-port", "unallocated-address", "node-port-address", "not-a-service"];

function holds({ verdict, endpoints, frontend, ...explanation }: Explanation): void {
  expect(verdict.cause).not.toBe("rules");
  expect(NOBODYS.includes(verdict.cause)).toBe(frontend === undefined);
  const sum = endpoints.reduce((all, { probability }) => all + probability, 0);
  expect(sum).toBeCloseTo(verdict.result === "balanced" ? 1 : 0, 4);
  for (const { probability, leftOut } of endpoints) {
    expect(leftOut === undefined).toBe(probability > 0);
    expect(leftOut?.reason).not.toBe("not-in-kernel");
  }
  const whole = { verdict, endpoints, ...(frontend === undefined ? {} : { frontend }), ...explanation };
  expect(isAsTheSchemaSays({ explanations: [whole] }), JSON.stringify(isAsTheSchemaSays.errors)).toBe(true);
}

function follow(situation: Situation): Situation {
  return { ...situation, live: { ruleset: situation.state.ruleset, comparable: true, remembered: [] } };
}

test("every connection to a random world has a reason, and a share of it for each endpoint", () => {
  fc.assert(
    fc.property(anyCase, ({ situation, connection }) => {
      const explanation = explain(connection, situation);
      holds(explanation);
      for (const line of explanationText(explanation, PLAIN).split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    }),
    { numRuns: 300 },
  );
});

test("a kernel that has what the objects ask for is explained as they are", () => {
  fc.assert(
    fc.property(anyCase, ({ situation, connection }) => {
      const live = explain(connection, follow(situation));
      expect(live).toEqual({ ...explain(connection, situation), rules: "live", differences: [] });
    }),
    { numRuns: 100 },
  );
});
