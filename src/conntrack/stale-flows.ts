import type { ByFamily, Family } from "../base/family.ts";
import { addToGroup } from "../base/group-by.ts";
import type { Flow } from "../kernel/conntrack.ts";
import type { FlowEnd } from "../kernel/tracked-connections.ts";
import { type Endpoint, endpointsOf } from "../model/endpoint.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import { familyOf, isLoopback } from "../model/ip.ts";
import type { NodePortAddresses } from "../model/node.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { MOST_RANGES_OF_ADDRESS, type PortRange, type PortRangeAddresses } from "../model/service.ts";
import { comparePrecedence, type ServicePort, servicePortsOf } from "../model/service-port.ts";

/**
 * The UDP frontends with their endpoints. Keys are `address . port`, and `ip nodePort N` for those of the
 * node's own addresses; for ranges of ports, `address . first-last`, with addresses alone as values. Of two
 * ranges with one port, the first has it. Values are the targets (`address . port`) of every endpoint that
 * serves, ready or terminating, near or far: a flow that was rightly sent somewhere stays there when a policy
 * changes, as a TCP connection does. The value is undefined where there are no rules, as of a service port in
 * quarantine: its flows stay as they are.
 */
export type UdpFrontends = ReadonlyMap<string, ReadonlySet<string> | undefined>;

/** A service port with all of its endpoints. */
export interface ServicePortEndpoints {
  readonly port: ServicePort;
  /** Undefined for a service port in quarantine, which has no rules. */
  readonly endpoints: readonly Endpoint[] | undefined;
}

/**
 * Returns the frontends of the UDP service ports. If several service ports have one frontend, the owner of
 * the cluster IP has it, otherwise the first in the given order: see `comparePrecedenceFor`. If port ranges
 * are off, they have no endpoints.
 */
export function udpFrontends(
  ports: Iterable<ServicePortEndpoints>,
  portRanges: PortRangeAddresses,
): UdpFrontends {
  const frontends = new Map<string, ReadonlySet<string> | undefined>();
  const udp = [...ports]
    .filter(({ port }) => port.spec.protocol === "udp")
    .map(({ port, endpoints }) => ({ port, targets: endpoints && servingTargets(endpoints) }));
  for (const keysOf of [clusterKeys, externalKeys]) {
    for (const { port, targets } of udp) {
      for (const key of keysOf(port)) if (!frontends.has(key)) frontends.set(key, targets);
    }
  }
  const ranged = udp.filter(({ port }) => port.spec.ranges !== undefined);
  for (const addressesOf of [clusterAddresses, externalAddresses]) {
    for (const { port, targets } of ranged) {
      const served = portRanges === "off" ? NO_ENDPOINTS : targets;
      const addresses = served && new Set(Array.from(served, (target) => socketOf(target)[0]));
      for (const address of addressesOf(port)) {
        for (const { first, last } of port.spec.ranges ?? []) {
          const key = socketKey(address, `${first}-${last}`);
          if (!frontends.has(key)) frontends.set(key, addresses);
        }
      }
    }
  }
  return frontends;
}

const clusterAddresses = ({ family, service }: ServicePort) => [service.clusterIPs[family]];
const externalAddresses = ({ family, service }: ServicePort) => [
  ...service.externalIPs[family],
  ...service.loadBalancerIPs[family],
];

function servingTargets(endpoints: readonly Endpoint[]): ReadonlySet<string> {
  const serving = endpoints.filter(({ source }) => source.ready || source.serving);
  return new Set(serving.map(({ target }) => target));
}

function clusterKeys(port: ServicePort): string[] {
  return clusterAddresses(port).map((address) => socketKey(address, port.spec.port));
}

function externalKeys(port: ServicePort): string[] {
  const { family, spec } = port;
  const keys = externalAddresses(port).map((address) => socketKey(address, spec.port));
  return spec.nodePort === 0 ? keys : [...keys, nodePortKey(family, spec.nodePort)];
}

function socketKey(address: string, port: number | string): string {
  return `${address} . ${port}`;
}

function socketOf(key: string): [address: string, port: string] {
  const [address = "", port = ""] = key.split(" . ");
  return [address, port];
}

function nodePortKey(family: Family, port: number): string {
  return `${family} nodePort ${port}`;
}

/** Adds the known frontends that are no longer wanted, without endpoints. */
export function withRemoved(wanted: UdpFrontends, known: Iterable<string>): UdpFrontends {
  const removed = [...known].filter((key) => !wanted.has(key));
  return new Map([...wanted, ...removed.map((key) => [key, new Set<string>()] as const)]);
}

/**
 * Returns true if a flow is stale: its destination is a frontend, and its replies come from none of the
 * frontend's endpoints. Its endpoint is gone, or it began untranslated before the frontend had one. Unless
 * deleted, such a flow lives as long as its client keeps sending. Flows to other addresses are never stale,
 * even to the port of a NodePort: only some of the host's addresses have NodePorts. Those that no longer have
 * any count as frontends without endpoints.
 */
export function isStale(
  { destination, replySource }: Flow,
  frontends: UdpFrontends,
  hosts: NodeAddresses,
): boolean {
  const ofPort =
    frontends.get(socketKey(destination.address, destination.port)) ??
    nodePortEndpoints(destination, frontends, hosts);
  const endpoints = ofPort ?? rangeEndpoints(destination, frontends, hosts);
  if (endpoints === undefined) return false;
  const isAnswered =
    ofPort === undefined
      ? endpoints.has(replySource.address) && replySource.port === destination.port
      : endpoints.has(socketKey(replySource.address, replySource.port));
  if (isAnswered) return false;
  // Without any endpoint, an untranslated flow stays: its address may now be a host's.
  return (
    endpoints.size > 0 || replySource.address !== destination.address || replySource.port !== destination.port
  );
}

interface RangeEndpoints extends PortRange {
  readonly endpoints: ReadonlySet<string> | undefined;
}

/** The port ranges of frontends by address, cached because there may be many flows. */
const ranges = new WeakMap<UdpFrontends, ReadonlyMap<string, readonly RangeEndpoints[]>>();

/** Returns the endpoints of the range that contains a destination; undefined if none does. */
function rangeEndpoints(
  { address, port }: FlowEnd,
  frontends: UdpFrontends,
  { withoutRanges }: NodeAddresses,
): ReadonlySet<string> | undefined {
  const known = ranges.get(frontends) ?? rangesOf(frontends);
  ranges.set(frontends, known);
  const endpoints = known.get(address)?.find(({ first, last }) => first <= port && port <= last)?.endpoints;
  return endpoints !== undefined && withoutRanges.has(address) ? NO_ENDPOINTS : endpoints;
}

function rangesOf(frontends: UdpFrontends): ReadonlyMap<string, readonly RangeEndpoints[]> {
  const found = new Map<string, RangeEndpoints[]>();
  for (const [key, endpoints] of frontends) {
    const [address, ports] = socketOf(key);
    const [first = 0, last] = ports.split("-").map(Number);
    if (last === undefined || found.get(address)?.length === MOST_RANGES_OF_ADDRESS) continue;
    addToGroup(found, address, { first, last, endpoints });
  }
  return found;
}

/** Returns the endpoints of the NodePort of a destination; undefined if it has none. */
function nodePortEndpoints(
  { address, port }: FlowEnd,
  frontends: UdpFrontends,
  { serving, former }: NodeAddresses,
): ReadonlySet<string> | undefined {
  if (!serving.has(address) && !former.has(address)) return undefined;
  const endpoints = frontends.get(nodePortKey(familyOf(address), port));
  return endpoints === undefined || serving.has(address) ? endpoints : NO_ENDPOINTS;
}

const NO_ENDPOINTS: ReadonlySet<string> = new Set();

/** Addresses of this node, of both families. */
export interface NodeAddresses {
  /** Addresses that serve NodePorts. */
  readonly serving: ReadonlySet<string>;
  /** Addresses that do not serve port ranges. Flows to ranges there are the host's own. */
  readonly withoutRanges: ReadonlySet<string>;
  /** Addresses that served NodePorts before. */
  readonly former: ReadonlySet<string>;
}

/**
 * Returns the addresses of this node that serve NodePorts, as the rules do. At its other addresses, a port
 * with a NodePort's number is the host's own, and so are flows to it.
 * @param selected what `--nodeport-addresses` selects, for each programmed family
 * @param ofHost reads all addresses of the host; called only if all of them are selected
 */
export async function nodePortHosts(
  selected: readonly { readonly family: Family; readonly nodePorts: NodePortAddresses }[],
  ofHost: () => Promise<ByFamily<readonly string[]>>,
): Promise<ReadonlySet<string>> {
  const local = selected.some(({ nodePorts }) => nodePorts.kind === "all")
    ? await ofHost()
    : { ip: [], ip6: [] };
  return new Set(
    selected.flatMap(({ family, nodePorts }) =>
      nodePorts.kind === "all"
        ? local[family].filter((address) => !isLoopback(address))
        : nodePorts.addresses,
    ),
  );
}

/**
 * Returns the addresses of this node at which port ranges are not served.
 * @param ports the UDP service ports
 * @param ofHost reads all addresses of the host; called only if needed
 */
export async function hostsWithoutRanges(
  portRanges: PortRangeAddresses,
  ports: readonly ServicePortEndpoints[],
  ofHost: () => Promise<readonly string[]>,
): Promise<ReadonlySet<string>> {
  const isAsked = portRanges === "virtual" && ports.some(({ port }) => port.spec.ranges !== undefined);
  return new Set(isAsked ? await ofHost() : []);
}

/** Whether an endpoint of a Service has terminated for longer than the Service allows. */
type IsDrained = (service: ServiceName, endpoint: Endpoint) => boolean;

/** Tracks the Services with UDP ports, so that changes of other Services cause no listing of flows. */
export class UdpServicePorts {
  readonly #cache: ObjectCache;
  readonly #drained: () => IsDrained;
  readonly #services = new Set<ServiceName>();

  /** @param drained returns a function that finds endpoints that have terminated for too long */
  constructor(cache: ObjectCache, drained: () => IsDrained = () => () => false) {
    this.#cache = cache;
    this.#drained = drained;
  }

  /** Updates these Services. Returns true if one of them has or had a UDP port. */
  update(names: Iterable<ServiceName>): boolean {
    let changed = false;
    for (const name of names) {
      const had = this.#services.delete(name);
      const has = this.#cache.service(name)?.ports.some(({ protocol }) => protocol === "udp") ?? false;
      if (has) this.#services.add(name);
      changed ||= had || has;
    }
    return changed;
  }

  /**
   * The UDP service ports with all their endpoints, by precedence, so that the winner of a conflict comes
   * first: those in quarantine have no rules, and come last.
   */
  ports(quarantine: Pick<ReadonlySet<ServicePortKey>, "has">): ServicePortEndpoints[] {
    const isDrained = this.#drained();
    return [...this.#services]
      .flatMap((name) => {
        const service = this.#cache.service(name);
        return service === undefined ? [] : servicePortsOf(service);
      })
      .filter(({ spec }) => spec.protocol === "udp")
      .sort(
        (a, b) => Number(quarantine.has(a.key)) - Number(quarantine.has(b.key)) || comparePrecedence(a, b),
      )
      .map((port) => {
        if (quarantine.has(port.key)) return { port, endpoints: undefined };
        const { name } = port.service;
        const endpoints = endpointsOf(this.#cache.slices(name), port, this.#cache.node.name);
        return { port, endpoints: endpoints.filter((endpoint) => !isDrained(name, endpoint)) };
      });
  }
}
