import { groupBy } from "../base/group-by.ts";
import type { EndpointSlice, SliceEndpoint, SlicePort } from "./endpoint-slice.ts";
import type { ServicePortSpec } from "./service.ts";
import type { ServicePort } from "./service-port.ts";

/** An endpoint of one service port: where a connection can be sent, and what is known of it. */
export interface Endpoint {
  /** `address . port` in nft's words; unique within a service port and its sorting key. */
  readonly target: string;
  readonly address: string;
  /** 1..65535 */
  readonly port: number;
  /** Runs on the node that we run on. */
  readonly local: boolean;
  /** Its slice's: 0 to 100. */
  readonly weight: number;
  /** The slice's own entry: conditions, hints, zone, node and pod. */
  readonly source: SliceEndpoint;
}

/**
 * The endpoints of one service port, gathered from the Service's slices of its family: those slices' ports
 * that carry the port's name and protocol. Of an endpoint in several entries (two pods may have one address for a while) one
 * counts: one that does not terminate (kube-proxy 1.36, kubernetes pull request 135593), then one that is ready,
 * one that serves, a local one, and the heavier one, so that the result does not depend on order. Sorted by target.
 */
export function endpointsOf(
  slices: Iterable<EndpointSlice>,
  {
    family,
    spec,
  }: Pick<ServicePort, "family"> & { readonly spec: Pick<ServicePortSpec, "name" | "protocol"> },
  nodeName: string,
): Endpoint[] {
  const byTarget = new Map<string, Endpoint>();
  for (const slice of slices) {
    if (slice.family !== family) continue;
    for (const { port } of portsNamed(slice.ports, spec)) {
      for (const source of slice.endpoints) addEndpoint(byTarget, { source, slice }, port, nodeName);
    }
  }
  return [...byTarget.values()].sort((a, b) => (a.target < b.target ? -1 : 1));
}

/** So many ports of a slice are looked through one by one. */
const FEW = 16;

/** The ports of slices that have many: of a Service with thousands of ports, each looks for its own. */
const portIndexes = new WeakMap<readonly SlicePort[], ReadonlyMap<string, readonly SlicePort[]>>();

/** The ports of a slice that have a service port's name and protocol. */
function portsNamed(
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

interface SliceEntry {
  readonly source: SliceEndpoint;
  readonly slice: Pick<EndpointSlice, "weight">;
}

function addEndpoint(
  byTarget: Map<string, Endpoint>,
  entry: SliceEntry,
  port: number,
  nodeName: string,
): void {
  const { source, slice } = entry;
  // Joined, it is one piece of memory; a template keeps a tree of pieces that every use has to walk or flatten.
  const target = [source.address, port].join(" . ");
  const known = byTarget.get(target);
  const local = nodeName !== "" && source.nodeName === nodeName;
  const endpoint: Endpoint = { target, address: source.address, port, local, weight: slice.weight, source };
  if (known === undefined || preferred(endpoint, known)) byTarget.set(target, endpoint);
}

function preferred({ local, source, weight }: Endpoint, known: Endpoint): boolean {
  if (source.terminating !== known.source.terminating) return known.source.terminating;
  if (source.ready !== known.source.ready) return source.ready;
  if (source.serving !== known.source.serving) return source.serving;
  if (local !== known.local) return local;
  if (weight !== known.weight) return weight > known.weight;
  return JSON.stringify(source) < JSON.stringify(known.source);
}
