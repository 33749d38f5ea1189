import type { AnyTable } from "../../src/nft/ast/any-table.ts";
import { evaluateTables } from "../../src/trace/evaluate.ts";
import type { Outcome } from "../../src/trace/outcome.ts";
import { familyOfPacket, type Host, type Packet } from "../../src/trace/packet.ts";
import { outcomeOf, type Probe, type Outcome as ProbeOutcome, type Tally } from "./lab/outcome.ts";
import {
  type AddressPair,
  addressesOf,
  machineNames,
  nodeSecondAddress,
  podGateway,
  podNames,
  remotePods,
  servedPorts,
} from "./lab/topology.ts";

/** The lab's node, as the evaluator has to know it. */
export const LAB_NODE: Host = {
  localAddresses: new Set([...both(addressesOf("node")), ...both(podGateway), nodeSecondAddress]),
};

const localPods: ReadonlySet<string> = new Set(podNames.flatMap((pod) => both(addressesOf(pod))));
const machines: ReadonlySet<string> = new Set(
  [...machineNames.map(addressesOf), ...remotePods, addressesOf("ext2")].flatMap(both),
);
const served: ReadonlySet<number> = new Set(servedPorts);

function both({ v4, v6 }: AddressPair): readonly string[] {
  return [v4, v6];
}

/** The first packet of a probe's connections, with the source that the sender's routes give it. */
export function packetOf(probe: Probe): Packet {
  const { from, to, port, proto } = probe;
  const own = addressesOf(from);
  const address = to.includes(":") ? own.v6 : own.v4;
  const packet = { to, port, protocol: proto };
  if (from !== "node") {
    const isPod = localPods.has(address);
    return { ...packet, from: { address, at: isPod ? "pod" : "outside", iifname: isPod ? from : "eth0" } };
  }
  return { ...packet, from: { address: to.startsWith("127.") ? to : nodeAddressTowards(to), at: "node" } };
}

/** The node's link to a local pod has an IPv4 address of its own, which is then the source. */
function nodeAddressTowards(address: string): string {
  const { v4, v6 } = addressesOf("node");
  if (address.includes(":")) return v6;
  return localPods.has(address) ? podGateway.v4 : v4;
}

/**
 * What a probe would see by the evaluator: one outcome, or, for a sticky probe, one for every endpoint that its
 * first connection may draw, each followed by the connections that find what the first one left.
 */
export function probeOutcomes(tables: readonly AnyTable[], probe: Probe): readonly ProbeOutcome[] {
  const packet = packetOf(probe);
  const first = evaluateTables(tables, LAB_NODE, packet);
  if (probe.sticky !== true) return [outcomeOf(probe, tallyOf(packet, first))];
  const family = familyOfPacket(packet);
  return first.map((outcome) => {
    const left = outcome.updates.map(({ table, ...element }) => ({ ...element, family, table: table.name }));
    return outcomeOf(probe, tallyOf(packet, [outcome, ...evaluateTables(tables, LAB_NODE, packet, left)]));
  });
}

/** The answers that an evaluator's outcomes stand for, each once. */
export function tallyOf(packet: Packet, outcomes: readonly Outcome[]): Tally {
  return Object.fromEntries(outcomes.map((outcome) => [answerOf(packet, outcome), 1]));
}

/**
 * What a connection meets when the evaluator's outcome is this:
 * - refused: the node's reject, `refused`
 * - dropped: nothing comes back, `timeout`; but a process of the node that sends UDP is told at once, `refused`
 * - delivered to a machine: it answers on the ports that are served and resets on others, `refused`
 * - delivered to an address that no machine has: sent on into nothing, `timeout`
 * - a masqueraded connection comes from the node's address on the way to the endpoint
 */
function answerOf(packet: Packet, outcome: Outcome): string {
  if (outcome.kind === "refused") return "refused";
  if (outcome.kind === "dropped") return isSenderTold(packet, outcome) ? "refused" : "timeout";
  if (outcome.kind === "not-understood") return outcome.kind;
  const { address, port } = outcome.to;
  if (!outcome.local && !machines.has(address)) return "timeout";
  if (!served.has(port)) return "refused";
  const peer = outcome.source === "masqueraded" ? nodeAddressTowards(address) : packet.from.address;
  return `${address} ${port} ${peer}`;
}

/** sendto(2) fails with EPERM when its packet is dropped on the way out. TCP takes the loss for the network's. */
function isSenderTold(packet: Packet, { steps }: Outcome): boolean {
  const hook = steps.findLast((step) => step.kind === "hook")?.hook;
  return (
    packet.from.at === "node" && packet.protocol === "udp" && (hook === "output" || hook === "postrouting")
  );
}
