import type { StubApi } from "../support/stub-api/stub-api.ts";
import { clusterObjects } from "./cluster-files.ts";
import { type ClusterSize, endpointObject, laterPodIP, podIP, sliceObject } from "./cluster-objects.ts";

/** Loads a cache into an API server. */
export function fillCluster({ cluster }: StubApi, size: ClusterSize): void {
  const metadata = { resourceVersion: "200000" };
  for (const resource of ["services", "endpointslices", "nodes", "servicecidrs"] as const) {
    cluster.load(resource, { metadata, items: [...clusterObjects(resource, size)] });
  }
}

/** The number of nodes for endpoints that are added later. The value does not matter. */
const NODES = 100;

/** Replaces endpoints of Services one by one, each with a new pod. */
export class EndpointChurn {
  readonly #api: StubApi;
  readonly #size: ClusterSize;
  /** The pods that have replaced others, by Service and position in its list. */
  readonly #replaced = new Map<number, string[]>();
  #next = 0;

  constructor(api: StubApi, size: ClusterSize) {
    this.#api = api;
    this.#size = size;
  }

  /** The address of the next new endpoint. */
  get nextAddress(): string {
    return laterPodIP(this.#next);
  }

  /**
   * Replaces one endpoint, as a rolling update does, and sends this to the watches.
   * @returns the address of the new endpoint
   */
  replace(service: number, index: number): string {
    const { endpoints, nodes = NODES } = this.#size;
    const address = laterPodIP(this.#next++);
    const known =
      this.#replaced.get(service) ??
      Array.from({ length: endpoints }, (_, i) => podIP(service * endpoints + i));
    known[index] = address;
    this.#replaced.set(service, known);
    const slice = Math.floor(index / 100);
    const part = known.slice(slice * 100, (slice + 1) * 100);
    const entries = part.map((one, i) =>
      endpointObject(service, one, service * endpoints + slice * 100 + i, nodes),
    );
    this.#api.cluster.put("endpointslices", sliceObject(service, slice, entries));
    return address;
  }
}
