import type { Family } from "../base/family.ts";
import type { FlowEnd } from "../kernel/connections.ts";
import type { UdpFlow } from "../kernel/conntrack.ts";
import type { Endpoint } from "../model/endpoint.ts";
import { familyOf } from "../model/ip.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { NodePortHosts } from "./nodeport-hosts.ts";

/**
 * The UDP frontends with their endpoints. Keys are `address . port`, and `ip nodePort N` for those of the node's own
 * addresses; values are the targets (`address . port`) of every endpoint that serves, ready or terminating, near or
 * far: a flow that was rightly sent somewhere stays there when a policy changes, as a TCP connection does.
 */
export type UdpFrontends = ReadonlyMap<string, ReadonlySet<string>>;

/** A service port with all of its endpoints. */
export interface ServicePortEndpoints {
  readonly port: ServicePort;
  readonly endpoints: readonly Endpoint[];
}

/**
 * The frontends of the UDP service ports. Of several with one frontend, the one whose cluster IP it is has it, or else the
 * first in the given order: see `comparePrecedenceFor`.
 */
export function udpFrontends(ports: Iterable<ServicePortEndpoints>): UdpFrontends {
  const frontends = new Map<string, ReadonlySet<string>>();
  const udp = [...ports]
    .filter(({ port }) => port.spec.protocol === "udp")
    .map(({ port, endpoints }) => ({ port, targets: servingTargets(endpoints) }));
  for (const { port, targets } of udp) frontends.set(clusterKey(port), targets);
  for (const { port, targets } of udp) {
    for (const key of externalKeys(port)) if (!frontends.has(key)) frontends.set(key, targets);
  }
  return frontends;
}

function servingTargets(endpoints: readonly Endpoint[]): ReadonlySet<string> {
  const serving = endpoints.filter(({ source }) => source.ready || source.serving);
  return new Set(serving.map(({ target }) => target));
}

function clusterKey({ family, service, spec }: ServicePort): string {
  return socketKey(service.clusterIPs[family], spec.port);
}

function externalKeys({ family, service, spec }: ServicePort): string[] {
  const addresses = [...service.externalIPs[family], ...service.loadBalancerIPs[family]];
  const keys = addresses.map((address) => socketKey(address, spec.port));
  return spec.nodePort === 0 ? keys : [...keys, nodePortKey(family, spec.nodePort)];
}

function socketKey(address: string, port: number): string {
  return `${address} . ${port}`;
}

function nodePortKey(family: Family, port: number): string {
  return `${family} nodePort ${port}`;
}

/** Adds the known frontends that are not wanted any more, as frontends without endpoints. */
export function withRemoved(wanted: UdpFrontends, known: Iterable<string>): UdpFrontends {
  const removed = [...known].filter((key) => !wanted.has(key));
  return new Map([...wanted, ...removed.map((key) => [key, new Set<string>()] as const)]);
}

/**
 * Whether a flow is stale: it is to one of the frontends, and none of its endpoints answers it. It leads to an endpoint
 * that is gone, or passed untranslated before the frontend had one. Unless deleted, such a flow lives as long as its
 * client keeps sending. Flows to other addresses are never stale, even to the port of a NodePort: only some of the
 * host's addresses have NodePorts. Those that no longer have any count as frontends without endpoints.
 */
export function isStale({ destination, replySource }: UdpFlow, frontends: UdpFrontends, hosts: NodePortHosts): boolean {
  const endpoints =
    frontends.get(socketKey(destination.address, destination.port)) ?? nodePortEndpoints(destination, frontends, hosts);
  if (endpoints === undefined || endpoints.has(socketKey(replySource.address, replySource.port))) return false;
  // Without an endpoint to send it to instead, an untranslated flow stays: its address may be a host's by now.
  return endpoints.size > 0 || replySource.address !== destination.address || replySource.port !== destination.port;
}

/** The endpoints of the NodePort that a flow was sent to; undefined when it was to none. */
function nodePortEndpoints(
  { address, port }: FlowEnd,
  frontends: UdpFrontends,
  { serving, former }: NodePortHosts,
): ReadonlySet<string> | undefined {
  if (!serving.has(address) && !former.has(address)) return undefined;
  const endpoints = frontends.get(nodePortKey(familyOf(address), port));
  return endpoints === undefined || serving.has(address) ? endpoints : NO_ENDPOINTS;
}

const NO_ENDPOINTS: ReadonlySet<string> = new Set();
