import type { EndpointSlice, SliceEndpoint } from "../../src/model/endpoint-slice.ts";
import type { ServicePort } from "../../src/model/service-port.ts";

/** A possible target of a connection. */
export interface Target {
  readonly address: string;
  readonly port: number;
  /** Whether it is on our node. */
  readonly local: boolean;
}

/** The endpoints of a service port for traffic under each policy, even if it never has such traffic. */
export interface Served {
  readonly cluster: readonly Target[];
  readonly local: readonly Target[];
  /** Whether any endpoint is usable anywhere. */
  readonly hasAny: boolean;
}

interface Entry extends Target {
  readonly source: SliceEndpoint;
  /** The weight of its slice. 0 drains the endpoint. */
  readonly weight: number;
}

/**
 * Returns the endpoints that serve. It is written from the documents and not from the code under test:
 * KEP-1669 (terminating endpoints), KEP-2433 (zone hints), KEP-3015 (node hints), README.md (weights).
 */
export function servedBy(
  slices: readonly EndpointSlice[],
  port: ServicePort,
  node: string,
  zone: string,
): Served {
  const entries = oneForEach(
    slices
      .filter((slice) => slice.family === port.family)
      .flatMap((slice) =>
        slice.ports
          .filter(({ name, protocol }) => name === port.spec.name && protocol === port.spec.protocol)
          .flatMap((slicePort) =>
            [...slice.endpoints].map(
              (source): Entry => ({
                address: source.address,
                port: slicePort.port,
                local: node !== "" && source.nodeName === node,
                source,
                weight: weightOf(slice),
              }),
            ),
          ),
      ),
  );
  const ready = entries.filter(({ source }) => source.ready);
  const leaving = entries.filter(({ source }) => !source.ready && source.serving && source.terminating);
  const here = (list: readonly Entry[]) => list.filter(({ local }) => local);
  return {
    cluster: ready.length > 0 ? hinted(undrained(ready), node, zone) : undrained(leaving),
    local: undrained(here(ready).length > 0 ? here(ready) : here(leaving)),
    hasAny: ready.length + leaving.length > 0,
  };
}

function weightOf({ features }: EndpointSlice): number {
  const { weight = 1 } = (features?.schedulers ?? {}) as { readonly weight?: number };
  return weight;
}

/** Endpoints of weight 0 serve only if there are no others. */
function undrained(list: readonly Entry[]): readonly Entry[] {
  const others = list.filter(({ weight }) => weight > 0);
  return others.length > 0 ? others : list;
}

/** Hints are used if all ready endpoints have them and some match this node. Hints for nodes come first. */
function hinted(ready: readonly Entry[], node: string, zone: string): readonly Entry[] {
  for (const [hintsOf, own] of [
    [({ source }: Entry) => source.nodeHints, node],
    [({ source }: Entry) => source.zoneHints, zone],
  ] as const) {
    const forUs = ready.filter((entry) => hintsOf(entry).includes(own));
    if (ready.every((entry) => hintsOf(entry).length > 0) && forUs.length > 0) return forUs;
  }
  return ready;
}

/**
 * Chooses among several entries for the same address and port: not terminating, then ready, then serving,
 * then local, then of the highest weight, then the first as JSON.
 */
function oneForEach(entries: readonly Entry[]): readonly Entry[] {
  const rank = ({ local, source, weight }: Entry): string =>
    [
      source.terminating ? 1 : 0,
      source.ready ? 0 : 1,
      source.serving ? 0 : 1,
      local ? 0 : 1,
      String(100 - weight).padStart(3, "0"),
      JSON.stringify(source),
    ].join();
  const groups = new Map<string, Entry[]>();
  for (const entry of entries) {
    const key = `${entry.address} ${entry.port}`;
    groups.set(key, [...(groups.get(key) ?? []), entry]);
  }
  return [...groups.values()].map((group) => group.sort((a, b) => (rank(a) < rank(b) ? -1 : 1))[0] as Entry);
}
