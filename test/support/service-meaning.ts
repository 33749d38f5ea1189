import { rangesOf } from "../../src/features/port-ranges/parse.ts";
import { areVirtual } from "../../src/features/port-ranges/rules.ts";
import { cidrContains } from "../../src/model/ip.ts";
import {
  comparePrecedence,
  type ServicePort,
  servicePortsOf,
  usesClusterEndpoints,
  usesLocalEndpoints,
} from "../../src/model/service-port.ts";
import type { FamilyContext } from "../../src/ruleset/node-context.ts";
import { familyOfPacket, isEcho, type Packet } from "../../src/trace/packet.ts";
import type { Objects } from "./build.ts";
import { type Served, servedBy, type Target } from "./topology-oracle.ts";

/**
 * The outcome of a packet: the possible deliveries as `<address> <port> <kept|masqueraded>`, sorted, or a
 * word.
 */
export type Meaning = readonly string[] | "refused" | "dropped";

interface Candidate {
  readonly port: ServicePort;
  readonly choice: Served;
}

interface Arrival {
  readonly packet: Packet;
  readonly context: FamilyContext;
  /** All service ports of the family, with the winners of conflicts first. */
  readonly candidates: readonly Candidate[];
  readonly fromPod: boolean;
  readonly toClusterIP: boolean;
}

/**
 * Returns the outcome that Services define for a packet, independently of rules. It follows the documentation
 * of the fields and kube-proxy's behaviour. Tests compare the rules with it.
 */
export function meaningOf(objects: Required<Objects>, context: FamilyContext, packet: Packet): Meaning {
  const arrival = arrive(objects, context, packet);
  const { candidates } = arrival;
  if (isEcho(packet.protocol)) return byPing(arrival, context);
  const firstOf = (found: readonly Candidate[]) => winnerAt(packet.to, found);
  const addressed = firstOf(candidates.filter(({ port }) => isAddressed(port, packet)));
  if (addressed !== undefined) return byAddress(arrival, addressed);
  const nodePort = isNodePortAddress(arrival)
    ? candidates.find(
        ({ port: { spec } }) => spec.nodePort === packet.port && spec.protocol === packet.protocol,
      )
    : undefined;
  const ranged = hasRanges(arrival)
    ? firstOf(candidates.filter(({ port }) => isInRange(port, packet)))
    : undefined;
  if (ranged !== undefined && nodePort?.choice.hasAny !== true) {
    const ofRange = byAddress(arrival, withPort(ranged, packet.port));
    // Without an endpoint for the packet in the range, the NodePort's refusal comes first.
    if (nodePort === undefined || Array.isArray(ofRange) || isForbidden(arrival, ranged.port)) return ofRange;
  }
  if (nodePort !== undefined) return fromOutside(arrival, nodePort);
  return unserved(arrival);
}

/** An echo request is answered by the node if a connection of the client to some port would be served. */
function byPing(arrival: Arrival, { settings, nodeAddress }: FamilyContext): Meaning {
  const { packet, candidates } = arrival;
  const isServed = candidates.some(({ port: { spec } }) => {
    const asked = { ...packet, port: spec.port, protocol: spec.protocol };
    const winner = winnerAt(
      packet.to,
      candidates.filter(({ port }) => isAddressed(port, asked)),
    );
    return winner !== undefined && Array.isArray(byAddress({ ...arrival, packet: asked }, winner));
  });
  const isAnswered = settings.answerPing === true && nodeAddress !== "" && isServed;
  return isAnswered ? [`${nodeAddress} ${packet.port} kept`] : unserved(arrival);
}

/** Returns the candidate that has an address as its cluster IP, or else the first. */
function winnerAt(address: string, found: readonly Candidate[]): Candidate | undefined {
  return found.find(({ port }) => port.service.clusterIPs[port.family] === address) ?? found[0];
}

function unserved({ packet, context, toClusterIP }: Arrival): Meaning {
  if (toClusterIP) return "refused";
  if (context.serviceCIDRs.some((cidr) => cidrContains(cidr, packet.to))) return "dropped";
  return [`${packet.to} ${packet.port} kept`];
}

function arrive(objects: Required<Objects>, context: FamilyContext, packet: Packet): Arrival {
  const family = familyOfPacket(packet);
  const candidates = objects.services
    .flatMap(servicePortsOf)
    .filter((port) => port.family === family)
    .sort(comparePrecedence)
    .map((port) => {
      const own = objects.slices.filter((slice) => slice.service === port.service.name);
      return { port, choice: servedBy(own, port, context.place.name, context.place.zone) };
    });
  return {
    packet,
    context,
    candidates,
    fromPod: comesFromPod(context, packet),
    toClusterIP: candidates.some(({ port }) => port.service.clusterIPs[family] === packet.to),
  };
}

function comesFromPod({ localTraffic }: FamilyContext, { from }: Packet): boolean {
  if (localTraffic.kind === "unknown") return false;
  if (localTraffic.kind === "sources")
    return localTraffic.cidrs.some((cidr) => cidrContains(cidr, from.address));
  return from.iifname?.startsWith(localTraffic.pattern.replace("*", "")) === true;
}

function isAddressed(port: ServicePort, packet: Packet): boolean {
  return port.spec.port === packet.port && isAt(port, packet);
}

/**
 * Ranges do not apply to the node's own addresses unless they are served at all addresses, and never to the
 * API server's port.
 */
function hasRanges({ packet: { to, protocol, port }, context }: Arrival): boolean {
  if (context.apiServers.includes(`${to} . ${protocol} . ${port}`)) return false;
  return !areVirtual(context) || to !== context.nodeAddress;
}

function isInRange(port: ServicePort, packet: Packet): boolean {
  return (
    rangesOf(port)?.some(({ first, last }) => first <= packet.port && packet.port <= last) === true &&
    isAt(port, packet)
  );
}

function isAt({ service, spec, family }: ServicePort, { to, protocol }: Packet): boolean {
  const addresses = [
    service.clusterIPs[family],
    ...service.externalIPs[family],
    ...service.loadBalancerIPs[family],
  ];
  return spec.protocol === protocol && addresses.includes(to);
}

/** Returns a candidate whose endpoints get connections at another port than their own. */
function withPort({ port, choice }: Candidate, number: number): Candidate {
  const atPort = (targets: readonly Target[]) => [
    ...new Map(targets.map((target) => [target.address, { ...target, port: number }])).values(),
  ];
  return { port, choice: { ...choice, cluster: atPort(choice.cluster), local: atPort(choice.local) } };
}

function isNodePortAddress({ packet: { to }, context: { nodePorts, nodeAddress } }: Arrival): boolean {
  return nodePorts.kind === "all" ? to === nodeAddress : nodePorts.addresses.includes(to);
}

function byAddress(arrival: Arrival, candidate: Candidate): Meaning {
  const { port, choice } = candidate;
  if (port.service.clusterIPs[port.family] !== arrival.packet.to) {
    return isForbidden(arrival, port) ? "dropped" : fromOutside(arrival, candidate);
  }
  const endpoints = port.service.internalPolicyLocal ? choice.local : choice.cluster;
  return deliver(arrival, choice, endpoints, false);
}

function isForbidden({ packet, context }: Arrival, { service, family }: ServicePort): boolean {
  const ranges = service.loadBalancerSourceRanges[family];
  const balancers = service.loadBalancerIPs[family];
  if (ranges.length === 0 || !balancers.includes(packet.to)) return false;
  const allows = (address: string) => ranges.some((range) => cidrContains(range, address));
  return (
    !allows(packet.from.address) && !(allows(context.nodeAddress) && balancers.includes(packet.from.address))
  );
}

function fromOutside(arrival: Arrival, { port, choice }: Candidate): Meaning {
  if (!port.service.externalPolicyLocal) return deliver(arrival, choice, choice.cluster, true);
  if (arrival.fromPod) return deliver(arrival, choice, choice.cluster, false);
  if (arrival.packet.from.at === "node") return deliver(arrival, choice, choice.cluster, true);
  return deliver(arrival, choice, choice.local, false);
}

function deliver(
  arrival: Arrival,
  { hasAny }: Served,
  endpoints: readonly Target[],
  masquerade: boolean,
): Meaning {
  if (endpoints.length === 0) return hasAny ? "dropped" : "refused";
  const { masqueradeAll, localTraffic } = arrival.context;
  const foreign = masqueradeAll || (localTraffic.kind !== "unknown" && !arrival.fromPod);
  const hidden = masquerade || (arrival.toClusterIP && foreign);
  return endpoints
    .map(({ address, port }) => {
      const source = hidden || isHairpin(arrival, address, port) ? "masqueraded" : "kept";
      return `${address} ${port} ${source}`;
    })
    .sort();
}

/** Whether a local endpoint reaches itself, through any Service that sends it connections from this node. */
function isHairpin({ packet, candidates }: Arrival, address: string, to: number): boolean {
  if (packet.from.address !== address) return false;
  return candidates.some(({ port, choice }) =>
    [
      ...(usesClusterEndpoints(port) ? choice.cluster : []),
      ...(usesLocalEndpoints(port) ? choice.local : []),
    ].some(
      (each) =>
        each.local &&
        each.address === address &&
        (rangesOf(port) !== undefined || (each.port === to && port.spec.protocol === packet.protocol)),
    ),
  );
}
