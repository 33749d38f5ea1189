import { expect, test } from "vitest";
import { AppError } from "../../../../src/base/errors.ts";
import { resetEndpoint, storyNamer } from "../../../../src/inspect/trace/named-story.ts";
import type { PacketStory } from "../../../../src/inspect/trace/packet-story.ts";
import { ruleText } from "../../../../src/nft/text/rule-text.ts";
import { cacheOf, renderAll, service, slice } from "../../../support/build.ts";
import { FakeFlowTable, flow } from "../../../support/fake-flow-table.ts";

const RULE =
  "ct reply ip saddr . ct reply proto-src @vanished counter packets 1 bytes 53 reject with tcp reset";

/** A packet to a Service that ended in a chain of ours. */
function story(chain = "vanished-endpoints-check"): PacketStory {
  const packet = {
    ...{ source: "10.244.1.14", sourcePort: 40_000, destination: "10.96.0.10", destinationPort: 80 },
    ...{ protocol: "tcp", flags: ["ack"], input: "pod4" },
  };
  const end = { kind: "rejected", family: "ip", table: "nft-proxy", chain, rule: RULE } as const;
  return { id: "1", startedAt: 0, packet, stages: [], end } as unknown as PacketStory;
}

const connection = (port: number, endpoint: string) =>
  flow({ client: { address: "10.244.1.14", port }, replySource: { address: endpoint, port: 8080 } });

const tracked = new FakeFlowTable();
tracked.flows = [connection(39_999, "10.244.2.11"), connection(40_000, "10.244.2.12")];
const failing = new FakeFlowTable();
failing.error = new AppError("HOST", "socat is missing");

const objects = { services: [service()] };
const { state: rendered } = renderAll(objects);
const name = storyNamer(rendered, cacheOf(objects), new Set(), rendered.ruleset);
const says = async (one: PacketStory, connections = tracked) =>
  name(one, await resetEndpoint(one, connections)).message;

test("trace finds the endpoint of a reset packet in connection tracking, and names the Service that it left", async () => {
  expect(await says(story())).toBe(
    "reset: the endpoint 10.244.2.12:8080 left Service default/web port 80/tcp, or terminated for too long",
  );
});

test("trace reports a reset packet without its endpoint if connection tracking fails", async () => {
  expect(await says(story(), failing)).toBe(
    "reset: its endpoint left Service default/web port 80/tcp, or terminated for too long",
  );
});

test("trace lists no connections for packets that were not reset", async () => {
  expect(await resetEndpoint(story("reject-chain"), failing)).toBeUndefined();
});

test("trace reports that a client is beyond its limit", () => {
  const limited = {
    services: [service({ clientLimits: { connections: 7 } })],
    slices: [slice({ endpoints: ["10.244.1.1"] })],
  };
  const { state } = renderAll(limited);
  const chain = "client-limit-7";
  const [, rule] = state.families.ip?.table.chains.get(chain)?.rules ?? [];
  const rules = [
    { chain, rule: ruleText(rule ?? []), verdict: "goto client-limit-refusal" },
    { chain: "client-limit-refusal", rule: "reject with tcp reset", verdict: "drop" },
  ];
  const stages = [{ family: "ip", table: "nft-proxy", chain: "nat-prerouting", rules, policy: "" }];
  const one = { ...story("client-limit-refusal"), stages } as unknown as PacketStory;
  const [stage] = storyNamer(state, cacheOf(limited), new Set(), state.ruleset)(one).stages;
  expect(stage?.rules.map(({ means }) => means)).toEqual([
    "the client has 7 connections already",
    "reset: the client is beyond a limit",
  ]);
});
