import { expect, test } from "vitest";
import { createDaemonPart } from "../../../src/features/echo-replies/daemon-part.ts";
import type { FeatureHost } from "../../../src/features/seam/daemon-part.ts";
import { type ContextOptions, renderAll, service, slice, testNodeContext } from "../../support/build.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { syncReport } from "../../support/sync-report.ts";

const ON = { settings: { answerPing: true } };
const SILENT = { ...ON, nodeAddress: "" };

/** The feature in a daemon with one Service, whose IPv4 address has endpoints. */
function started(options: ContextOptions) {
  const nodeContext = testNodeContext(options);
  const objects = { services: [service()], slices: [slice({ endpoints: ["10.244.2.1"] })] };
  const { state } = renderAll(objects, nodeContext);
  const logger = memoryLogger();
  const host = { logger, state: () => state, nodeContext: () => nodeContext } as unknown as FeatureHost;
  return { logger, running: createDaemonPart(host) };
}

test("--answer-ping warns once if the node lacks an address of a family in which Services would answer", () => {
  const { logger, running } = started(SILENT);
  for (const given of [SILENT, SILENT, ON, SILENT])
    running.synced?.({ ...syncReport({ nodeContext: testNodeContext(given) }), waiting: new Set() });
  const message = "--answer-ping: no address of this node to answer pings with";
  const lines = logger.lines.map((line) => [line.level, line.message, line.fields.families]);
  expect(lines).toEqual([
    ["warn", message, "IPv4"],
    ["warn", message, "IPv4"],
  ]);
});

test.each<[string, ContextOptions, object | undefined]>([
  [
    "counts the addresses that answer",
    ON,
    { title: "Answered pings", tone: "good", value: "1", lines: ["addresses of Services answer"], list: [] },
  ],
  ["is absent without the option", {}, undefined],
  [
    "names the family in which the node has no address to answer with",
    SILENT,
    {
      ...{ title: "Answered pings", tone: "bad", value: "0", list: [] },
      lines: ["addresses of Services answer", "this node has no IPv4 address to answer with"],
    },
  ],
])("the card Answered pings %s", (_what, options, card) => {
  expect(started(options).running.card?.(0)).toEqual(card);
});
