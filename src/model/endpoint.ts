import { groupBy } from "../base/group-by.ts";
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

/**
 * The endpoints of one service port, sorted by target: from all slices of the Service and family that have a
 * port with this name and protocol. Two pods may share an address for a while. Of several entries for an
 * endpoint, one counts: one that does not terminate (kube-proxy 1.36, kubernetes pull request 135593), then
 * one that is ready, serving, local, and with the largest share, so that the order does not matter.
 */
export function endpointsOf(
  slices: Iterable<EndpointSlice>,
  {
    family,
    spec,
  }: Pick<ServicePort, "family"> & { readonly spec: Pick<ServicePortSpec, "name" | "protocol"> },
  nodeName: string,
  shareOf: ShareOf = () => 1,
): Endpoint[] {
  const all: Endpoint[] = [];
  for (const slice of slices) {
    if (slice.family !== family) continue;
    const share = shareOf(slice);
    for (const { port } of portsNamed(slice.ports, spec)) {
      for (const source of slice.endpoints) all.push(endpointOf(source, share, port, nodeName));
    }
  }
  return withoutRepeated(all.sort(byTarget));
}

/** Maximum number of ports to search one by one; above it, an index is faster. */
const FEW = 16;

/** Indexes the ports of slices with many: each of a Service's thousands of ports searches its slices. */
const portIndexes = new WeakMap<readonly SlicePort[], ReadonlyMap<string, readonly SlicePort[]>>();

/** The ports of a slice with the name and protocol of a service port. */
export function portsNamed(
  ports: readonly SlicePort[],
  wanted: Pick<SlicePort, "name" | "protocol">,
): readonly SlicePort[] {
  if (ports.length <= FEW) {
    return ports.filter(({ name, protocol }) => name === wanted.name && protocol === wanted.protocol);
  }
  const index = portIndexes.get(ports) ?? groupBy(ports, nameAndProtocol);
  portIndexes.set(ports, index);
  return index.get(nameAndProtocol(wanted)) ?? [];
}

function nameAndProtocol({ name, protocol }: Pick<SlicePort, "name" | "protocol">): string {
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
