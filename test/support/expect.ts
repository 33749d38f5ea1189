import { familyOf } from "../../src/model/ip.ts";
import type { AnyTable } from "../../src/nft/ast/any-table.ts";
import { ECHO_PROTOCOLS } from "../../src/nft/ast/expression.ts";
import { evaluate } from "../../src/trace/evaluate.ts";
import type { Outcome } from "../../src/trace/outcome.ts";
import { familyOfPacket, type Host, isEcho, type Packet } from "../../src/trace/packet.ts";
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

/** The lab's node, as input of the evaluator. */
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

/** Returns the first packet of a probe's connections. The sender's routes determine its source address. */
export function packetOf(probe: Probe): Packet {
  const { from, to, port, proto } = probe;
  const own = addressesOf(from);
  const address = to.includes(":") ? own.v6 : own.v4;
  const protocol = proto === "ping" ? ECHO_PROTOCOLS[familyOf(to)] : proto;
  const packet = { to, port, protocol };
  if (from !== "node") {
    const isPod = localPods.has(address);
    return { ...packet, from: { address, at: isPod ? "pod" : "outside", iifname: isPod ? from : "eth0" } };
  }
  return { ...packet, from: { address: to.startsWith("127.") ? to : nodeAddressTowards(to), at: "node" } };
}

/** The node's link to a local pod has its own IPv4 address, which is the source then. */
function nodeAddressTowards(address: string): string {
  const { v4, v6 } = addressesOf("node");
  if (address.includes(":")) return v6;
  return localPods.has(address) ? podGateway.v4 : v4;
}

/**
 * Returns the outcomes of a probe that the evaluator predicts. A sticky probe has one outcome for every
 * endpoint that its first connection may get; later connections then follow the affinity entry of the first
 * one.
 */
export function probeOutcomes(tables: readonly AnyTable[], probe: Probe): readonly ProbeOutcome[] {
  const packet = packetOf(probe);
  const first = evaluate(tables, LAB_NODE, packet);
  if (probe.sticky !== true) return [outcomeOf(probe, tallyOf(packet, first))];
  const family = familyOfPacket(packet);
  return first.map((outcome) => {
    const left = outcome.updates.map(({ table, ...element }) => ({ ...element, family, table: table.name }));
    return outcomeOf(probe, tallyOf(packet, [outcome, ...evaluate(tables, LAB_NODE, packet, left)]));
  });
}

/** Returns the answers for the evaluator's outcomes, each once. */
export function tallyOf(packet: Packet, outcomes: readonly Outcome[]): Tally {
  return Object.fromEntries(outcomes.map((outcome) => [answerOf(packet, outcome), 1]));
}

/**
 * Returns the result of a connection for an outcome of the evaluator:
 * - refused: the node's reject, `refused`
 * - dropped: nothing comes back, `timeout`; but a process on the node that sends UDP gets an error at once,
 *   `refused`
 * - delivered to a machine: it answers on served ports, and resets connections to others, `refused`
 * - delivered to an address that no machine has: the packet is lost, `timeout`
 * - an echo request that is delivered: the answer has the address that the client knows
 * - masqueraded: the connection comes from the node's address that faces the endpoint
 */
function answerOf(packet: Packet, outcome: Outcome): string {
  if (outcome.kind === "refused") return "refused";
  if (outcome.kind === "dropped") return isSenderTold(packet, outcome) ? "refused" : "timeout";
  if (outcome.kind === "not-understood") return outcome.kind;
  const { address, port } = outcome.to;
  if (isEcho(packet.protocol))
    return outcome.local || machines.has(address) ? `${packet.to} 0 kept` : "timeout";
  if (!outcome.local && !machines.has(address)) return "timeout";
  if (!served.has(port)) return "refused";
  const peer = outcome.source === "masqueraded" ? nodeAddressTowards(address) : packet.from.address;
  return `${address} ${port} ${peer}`;
}

/**
 * sendto(2) fails with EPERM if its packet is dropped on the way out. TCP treats this as packet loss in the
 * network.
 */
function isSenderTold(packet: Packet, { steps }: Outcome): boolean {
  const hook = steps.findLast((step) => step.kind === "hook")?.hook;
  return (
    packet.from.at === "node" && packet.protocol !== "tcp" && (hook === "output" || hook === "postrouting")
  );
}
