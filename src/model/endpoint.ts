import { addToGroup } from "../base/group-by.ts";
import { pieceMeter, sorting } from "../base/pieces.ts";
import type { EndpointSlice, SliceEndpoint, SlicePort } from "./endpoint-slice.ts";
import type { ServicePortSpec } from "./service.ts";
import type { ServicePort } from "./service-port.ts";

/** An endpoint of one service port. */
export interface Endpoint {
  /** `address . port` as nft writes it; unique within a service port, and its sort key. */
  readonly target: string;
  readonly address: string;
  /** 1..65535 */
  readonly port: number;
  /** Whether it is on our node. */
  readonly local: boolean;
  /**
   * Its share of new connections, compared with those of others: 1 unless a feature gives another. With 0, it
   * is drained: it gets new connections only if no others can.
   */
  readonly share: number;
  /** Its entry in the slice: conditions, hints, zone, node and pod. */
  readonly source: SliceEndpoint;
}

/** The share of each endpoint of a slice. */
export type ShareOf = (slice: EndpointSlice) => number;

/** The share if endpoints do not differ. */
export const EQUAL: ShareOf = () => 1;

type PortInFamily = Pick<ServicePort, "family"> & {
  readonly spec: Pick<ServicePortSpec, "name" | "protocol">;
};

/** The slices of a Service by the names of their ports: reads each slice once, for all ports. */
export class SlicesByPort {
  readonly #named = new Map<string, { readonly slice: EndpointSlice; readonly port: number }[]>();

  /**
   * Reads slices in steps: a Service may have thousands of them, each with thousands of ports.
   * @param names the names of the ports to ask for; all if absent
   */
  static *reading(
    slices: readonly EndpointSlice[],
    names?: ReadonlySet<string>,
  ): Generator<undefined, SlicesByPort> {
    const byPort = new SlicesByPort();
    if (names?.size === 0) return byPort;
    const isPieceDone = pieceMeter();
    for (const slice of slices) {
      if (slice.endpoints.length === 0) continue;
      for (const port of slice.ports) {
        const name = portNameOf(port);
        if (names?.has(name) !== false) addToGroup(byPort.#named, name, { slice, port: port.port });
      }
      if (isPieceDone(slice.ports.length)) yield;
    }
    return byPort;
  }

  /**
   * Reads the endpoints of one service port in steps, sorted by target: from all slices of the family that
   * have a port with its name and protocol. Two pods may share an address for a while. Of several entries for
   * one endpoint, whatever their order, it takes one that is not terminating (kube-proxy 1.36, kubernetes
   * pull request 135593); of these a ready one, then a serving one, then a local one, then the one with the
   * largest share.
   * @param among the endpoints of a slice to choose from; all if absent
   */
  *endpointsOf(
    { family, spec }: PortInFamily,
    nodeName: string,
    shareOf = EQUAL,
    among: (slice: EndpointSlice) => Iterable<SliceEndpoint> = ({ endpoints }) => endpoints,
  ): Generator<undefined, Endpoint[]> {
    const all: Endpoint[] = [];
    const isPieceDone = pieceMeter();
    for (const { slice, port } of this.#named.get(portNameOf(spec)) ?? []) {
      if (slice.family !== family) continue;
      const share = shareOf(slice);
      for (const source of among(slice)) all.push(endpointOf(source, share, port, nodeName));
      if (isPieceDone(slice.endpoints.length)) yield;
    }
    return withoutRepeated(yield* sorting(all, byTarget));
  }
}

/** Finds the names of the ports whose endpoints differ between two lists of slices of a Service, in steps. */
export function* comparingPorts(
  before: readonly EndpointSlice[],
  after: readonly EndpointSlice[],
): Generator<undefined, ReadonlySet<string>> {
  const names = new Set<string>();
  if (before === after) return names;
  const isPieceDone = pieceMeter();
  const kept = new Set(after);
  const gone = new Map(before.flatMap((slice) => (kept.delete(slice) ? [] : [[slice.name, slice]])));
  for (const slice of kept) {
    const known = gone.get(slice.name);
    if (known !== undefined && haveSameEndpoints(known, slice)) gone.delete(slice.name);
    else for (const port of slice.ports) names.add(portNameOf(port));
    if (isPieceDone(slice.ports.length + slice.endpoints.length)) yield;
  }
  for (const { ports } of gone.values()) for (const port of ports) names.add(portNameOf(port));
  return names;
}

function haveSameEndpoints(a: EndpointSlice, b: EndpointSlice): boolean {
  const contentOf = ({ family, features, ports, endpoints }: EndpointSlice) =>
    JSON.stringify([family, features, ports, endpoints]);
  return contentOf(a) === contentOf(b);
}

/** The name and protocol by which the ports of Services and slices are matched. */
export function portNameOf({ name, protocol }: Pick<SlicePort, "name" | "protocol">): string {
  return `${protocol} ${name}`;
}

function endpointOf(source: SliceEndpoint, share: number, port: number, nodeName: string): Endpoint {
  const { address } = source;
  // `join` makes one flat string. A template makes a tree of pieces that every use has to walk or flatten.
  const target = [address, port].join(" . ");
  return { target, address, port, local: nodeName !== "" && source.nodeName === nodeName, share, source };
}

function byTarget(a: Endpoint, b: Endpoint): number {
  if (a.target === b.target) return 0;
  return a.target < b.target ? -1 : 1;
}

/** Keeps the preferred entry of each target. @param sorted by target */
function withoutRepeated(sorted: Endpoint[]): Endpoint[] {
  let last = 0;
  for (let next = 1; next < sorted.length; next++) {
    const [known, endpoint] = [sorted[last], sorted[next]] as [Endpoint, Endpoint];
    if (endpoint.target !== known.target) sorted[++last] = endpoint;
    else if (preferred(endpoint, known)) sorted[last] = endpoint;
  }
  sorted.length = Math.min(sorted.length, last + 1);
  return sorted;
}

function preferred({ local, source, share }: Endpoint, known: Endpoint): boolean {
  if (source.terminating !== known.source.terminating) return known.source.terminating;
  if (source.ready !== known.source.ready) return source.ready;
  if (source.serving !== known.source.serving) return source.serving;
  if (local !== known.local) return local;
  if (share !== known.share) return share > known.share;
  return JSON.stringify(source) < JSON.stringify(known.source);
}
