import type { ByFamily, Family } from "../base/family.ts";
import { addToGroup, groupBy } from "../base/group-by.ts";
import { oncePerObject } from "../base/once-per-object.ts";
import { resultOf } from "../base/pieces.ts";
import { type Flow, type FlowEnd, type FlowPlace, isTranslated, placeOfFlows } from "../kernel/conntrack.ts";
import { type Endpoint, SlicesByPort } from "../model/endpoint.ts";
import type { EndpointSlice, SliceEndpoint } from "../model/endpoint-slice.ts";
import type { ServiceName } from "../model/ids.ts";
import { familyOf, isLoopback } from "../model/ip.ts";
import type { NodePortAddresses } from "../model/node.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Service } from "../model/service.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import type { PortInterval } from "../ruleset/interval-frontends.ts";
import { frontendKey, intervalKey, nodePortKey, parseFrontendKey } from "../ruleset/keys.ts";
import type { IntervalFrontends } from "../ruleset/node-context.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";

/** Whether flows to an endpoint of a Service end though it still serves. */
type IsEnded = (service: ServiceName, endpoint: Endpoint) => boolean;

/** Parts of {@link UdpFrontends}. */
export interface UdpFrontendsParts {
  readonly cache: ObjectCache;
  /** Returns the desired state, never older than the rules in the kernel. */
  readonly state: () => Pick<RulesetState, "families" | "areIntervalsVirtual">;
  /** Returns a function that finds endpoints whose flows end though they still serve. */
  readonly ended: () => IsEnded;
}

/** Addresses of this node, of both families. */
export interface NodeAddresses {
  /** Addresses that serve NodePorts. */
  readonly serving: ReadonlySet<string>;
  /** Addresses that do not serve intervals. Flows to intervals there are the host's own. */
  readonly withoutIntervals: ReadonlySet<string>;
  /** Addresses that served NodePorts before. */
  readonly former: ReadonlySet<string>;
}

/**
 * Maximum number of removed frontends that are remembered; beyond it, the oldest are dropped. Tenants could
 * remove any number while conntrack does not work.
 */
const MOST_REMOVED = 100_000;

/**
 * Maximum number of verdicts that are kept while flows are judged, because most flows have the same verdict
 * as others.
 */
const MOST_VERDICTS = 10_000;

/** Maximum number of removed intervals of one address: each flow to the address is compared with them. */
const MOST_INTERVALS = 2000;

type Translation = Pick<Flow, "destination" | "replySource">;

/**
 * The UDP frontends: those of the desired rules, and those that Services no longer want, until their flows
 * are deleted. A change costs the frontends of its Services; the endpoints of a frontend are looked up for
 * each of its flows.
 */
export class UdpFrontends {
  readonly #parts: UdpFrontendsParts;
  /** The Services with UDP ports. */
  readonly #services = new Map<ServiceName, Service>();
  /** The keys of removed frontends, as in rules. */
  #removed = new Set<string>();

  constructor(parts: UdpFrontendsParts) {
    this.#parts = parts;
  }

  /** Whether no flow can be stale. */
  get isEmpty(): boolean {
    return this.#services.size === 0 && this.#removed.size === 0;
  }

  /** Whether intervals of ports are not served at addresses of this node. */
  get areIntervalsVirtual(): boolean {
    return this.#parts.state().areIntervalsVirtual;
  }

  /** Reads these Services after a sync. @returns the places of the UDP ports that they have or had */
  update(names: Iterable<ServiceName>): readonly FlowPlace[] {
    const places: FlowPlace[] = [];
    const intervals = Object.values(this.#parts.state().families)[0]?.intervals;
    for (const name of names) {
      const before = this.#services.get(name);
      const found = this.#parts.cache.service(name);
      const after = found?.ports.some(({ protocol }) => protocol === "udp") ? found : undefined;
      const wanted = new Set(keysOf(after, intervals));
      for (const key of wanted) places.push(placeOf(key));
      if (before === after) continue;
      const had = [...keysOf(before, intervals)];
      for (const key of had) places.push(placeOf(key));
      this.#addRemoved(had.filter((key) => !wanted.has(key)));
      if (after === undefined) this.#services.delete(name);
      else this.#services.set(name, after);
    }
    return places;
  }

  /** Hands over the keys of removed frontends. */
  takeRemoved(): ReadonlySet<string> {
    const removed = this.#removed;
    this.#removed = new Set();
    return removed;
  }

  /** Takes back keys of removed frontends whose flows could not be deleted. */
  putBack(removed: ReadonlySet<string>): void {
    const newer = this.#removed;
    this.#removed = new Set(removed);
    this.#addRemoved(newer);
  }

  #addRemoved(keys: Iterable<string>): void {
    for (const key of keys) this.#removed.add(key);
    for (const key of this.#removed) {
      if (this.#removed.size <= MOST_REMOVED) break;
      this.#removed.delete(key);
    }
  }

  /**
   * Returns a function that tells whether a flow is stale, by the desired state and objects of that moment:
   * its destination is a frontend, and its replies come from none of the frontend's endpoints that serve,
   * ready or terminating, on any node. (A flow to a correct endpoint keeps it when a policy changes, as a TCP
   * connection does.) Its endpoint is gone, or it began untranslated before the frontend had one. Unless
   * deleted, such a flow lives as long as its client keeps sending.
   *
   * Flows to other addresses are never stale, even to the port of a NodePort: only some of the host's
   * addresses have NodePorts. Those that no longer have any count as frontends without endpoints. Flows to a
   * frontend that a Service wants but that has no rules are kept, for example those of a service port in
   * quarantine.
   * @param removed the keys of removed frontends, which count as frontends without endpoints
   */
  judge(hosts: NodeAddresses, removed: ReadonlySet<string>): (flow: Flow) => boolean {
    const isEnded = this.#parts.ended();
    const removedIntervals = intervalsIn(removed);
    const { cache } = this.#parts;
    const slicesOf = oncePerObject(({ name }: Service) => resultOf(SlicesByPort.reading(cache.slices(name))));
    const serving = (port: ServicePort, among?: (slice: EndpointSlice) => readonly SliceEndpoint[]) =>
      resultOf(slicesOf(port.service).endpointsOf(port, cache.node.name, undefined, among)).filter(
        (one) => (one.source.ready || one.source.serving) && !isEnded(port.service.name, one),
      );
    const byAddress = oncePerObject(({ endpoints }: EndpointSlice) =>
      groupBy(endpoints, ({ address }) => address),
    );
    const endpointsAt = (address: string, port: ServicePort) =>
      serving(port, (slice) => byAddress(slice).get(address) ?? []);
    const hasServing = oncePerObject((port: ServicePort) => serving(port).length > 0);
    const isStale = (flow: Translation): boolean => {
      const { destination, replySource } = flow;
      const frontend = this.#frontendAt(destination, hosts);
      // Without endpoints, an untranslated flow is kept: its address may now belong to a host.
      if (frontend === undefined)
        return isTranslated(flow) && isIn(destination, hosts, removed, removedIntervals);
      if (!frontend.isServed) return isTranslated(flow);
      const { port, isInterval } = frontend;
      const isAnswered = endpointsAt(replySource.address, port).some(
        (endpoint) => replySource.port === (isInterval ? destination.port : endpoint.port),
      );
      return !isAnswered && (isTranslated(flow) || hasServing(port));
    };
    const known = new Map<string, boolean>();
    return ({ destination, replySource }) => {
      const key = `${destination.address} ${destination.port} ${replySource.address} ${replySource.port}`;
      const verdict = known.get(key) ?? isStale({ destination, replySource });
      if (known.size === MOST_VERDICTS) known.clear();
      known.set(key, verdict);
      return verdict;
    };
  }

  /** The frontend in the desired rules, and whether it is served at this address. */
  #frontendAt({ address, port }: FlowEnd, hosts: NodeAddresses) {
    const family = this.#parts.state().families[familyOf(address)];
    const frontend = family?.frontendAt(address, "udp", port, hasOrHadNodePorts(address, hosts));
    if (frontend === undefined) return undefined;
    const { address: fixed, lastPort } = parseFrontendKey(frontend.key);
    const isInterval = lastPort !== undefined;
    const isNodePort = fixed === undefined;
    const isServed = isInterval
      ? !hosts.withoutIntervals.has(address)
      : !isNodePort || hosts.serving.has(address);
    return { port: frontend.port, isInterval, isServed };
  }
}

function hasOrHadNodePorts(address: string, { serving, former }: NodeAddresses): boolean {
  return serving.has(address) || former.has(address);
}

/** The place of all flows to a frontend. */
function placeOf(key: string): FlowPlace {
  const { address, port, lastPort } = parseFrontendKey(key);
  if (address === undefined) return { family: familyOf(key.split(" ", 1)[0] ?? ""), port };
  return placeOfFlows(address, lastPort === undefined ? port : undefined);
}

/** The keys of the UDP frontends that a Service wants. */
function* keysOf(service: Service | undefined, intervals?: IntervalFrontends): Generator<string> {
  if (service === undefined) return;
  for (const { family, spec } of servicePortsOf(service)) {
    if (spec.protocol !== "udp") continue;
    const { clusterIPs, externalIPs, loadBalancerIPs } = service;
    for (const address of [clusterIPs[family], ...externalIPs[family], ...loadBalancerIPs[family]]) {
      const key = frontendKey(address, spec.protocol, spec.port);
      yield key;
      for (const interval of intervals?.intervalsOf({ service, spec }) ?? [])
        yield intervalKey(key, interval);
    }
    if (spec.nodePort !== 0) yield nodePortKey(family, spec.protocol, spec.nodePort);
  }
}

/** The intervals among the keys of frontends, by address. */
function intervalsIn(keys: Iterable<string>): ReadonlyMap<string, readonly PortInterval[]> {
  const found = new Map<string, PortInterval[]>();
  for (const key of keys) {
    const { address = "", port: first, lastPort: last } = parseFrontendKey(key);
    if (last !== undefined && (found.get(address)?.length ?? 0) < MOST_INTERVALS)
      addToGroup(found, address, { first, last });
  }
  return found;
}

/** Whether frontends, given by their keys and intervals, contain a destination. */
function isIn(
  { address, port }: FlowEnd,
  hosts: NodeAddresses,
  keys: ReadonlySet<string>,
  intervals: ReadonlyMap<string, readonly PortInterval[]>,
): boolean {
  if (keys.has(frontendKey(address, "udp", port))) return true;
  if (hasOrHadNodePorts(address, hosts) && keys.has(nodePortKey(familyOf(address), "udp", port))) return true;
  return intervals.get(address)?.some(({ first, last }) => first <= port && port <= last) === true;
}

/**
 * Returns the addresses of this node that serve NodePorts, as the rules do. At its other addresses, a port
 * with a NodePort's number is the host's own, and so are flows to it.
 * @param selected the addresses that `--nodeport-addresses` selects, for each programmed family
 * @param ofHost the addresses of the host's interfaces
 */
export function nodePortHosts(
  selected: readonly { readonly family: Family; readonly nodePorts: NodePortAddresses }[],
  ofHost: ByFamily<readonly string[]>,
): ReadonlySet<string> {
  return new Set(
    selected.flatMap(({ family, nodePorts }) =>
      nodePorts.kind === "all"
        ? ofHost[family].filter((address) => !isLoopback(address))
        : nodePorts.addresses,
    ),
  );
}
