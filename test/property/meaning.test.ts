import fc from "fast-check";
import { expect, test } from "vitest";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import type { FamilyContext, NodeContext } from "../../src/ruleset/node-context.ts";
import { evaluate } from "../../src/trace/evaluate.ts";
import { familyOfPacket, type Host, type Packet } from "../../src/trace/packet.ts";
import { anyContexts, anyObjects, packetsFor } from "../support/arbitraries.ts";
import { renderAll } from "../support/build.ts";
import { runs } from "../support/property-runs.ts";
import { type Meaning, meaningOf } from "../support/service-meaning.ts";

const NODE: Host = { localAddresses: new Set(["192.0.2.2", "fd00:c0::2"]) };

interface Treatment {
  readonly meaning: Meaning;
  /** A hash of the client's address chooses one of several endpoints. */
  readonly isHashed: boolean;
}

function treatment(ruleset: Ruleset, packet: Packet): Treatment {
  const outcomes = evaluate(Object.values(ruleset), NODE, packet);
  const probability = 1 / outcomes.length;
  const words = outcomes.map((outcome) => {
    expect(outcome.probability).toBeCloseTo(probability);
    if (outcome.kind !== "delivered") return outcome.kind;
    expect([outcome.mark, outcome.local ? 0 : outcome.priority]).toEqual([0, 0]);
    return `${outcome.to.address} ${outcome.to.port} ${outcome.source}`;
  });
  const [word] = words;
  const isHashed = outcomes.some(({ steps }) =>
    steps.some((step) => step.kind === "rule" && step.effects.some(({ kind }) => kind === "hash")),
  );
  const meaning = word === "refused" || word === "dropped" ? word : [...new Set(words)].sort();
  return { meaning, isHashed };
}

function contextOf(nodeContext: NodeContext, packet: Packet): FamilyContext {
  const context = nodeContext.find(({ family }) => family === familyOfPacket(packet));
  if (context === undefined) throw new Error("no context");
  return context;
}

const objectsAndPackets = anyObjects.chain((objects) =>
  fc.record({
    objects: fc.constant(objects),
    packets: fc.array(packetsFor(objects), { minLength: 20, maxLength: 20 }),
  }),
);

test("the rules treat every random packet as the fields of its Service say", () => {
  fc.assert(
    fc.property(objectsAndPackets, anyContexts, ({ objects, packets }, nodeContext) => {
      const { ruleset } = renderAll(objects, nodeContext).state;
      for (const packet of packets) {
        const meaning = meaningOf(objects, contextOf(nodeContext, packet), packet);
        const { meaning: treated, isHashed } = treatment(ruleset, packet);
        if (!isHashed) expect(treated, JSON.stringify(packet)).toEqual(meaning);
        else expect(meaning, JSON.stringify(packet)).toEqual(expect.arrayContaining([...treated]));
      }
    }),
    { numRuns: runs(300) },
  );
});
