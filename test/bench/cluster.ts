import type { StubApi } from "../support/stub-api/stub-api.ts";
import { clusterObjects } from "./cluster-files.ts";
import { type ClusterSize, endpointObject, laterPodIP, podIP, sliceObject } from "./cluster-objects.ts";

/** Fills an API server with a cache. */
export function fillCluster({ cluster }: StubApi, size: ClusterSize): void {
  const metadata = { resourceVersion: "200000" };
  for (const resource of ["services", "endpointslices", "nodes", "servicecidrs"] as const) {
    cluster.load(resource, { metadata, items: [...clusterObjects(resource, size)] });
  }
}

/** Nodes for endpoints that come later: any number will do. */
const NODES = 100;

/** Replaces endpoints of Services one by one, each by a pod that was never seen before. */
export class EndpointChurn {
  readonly #api: StubApi;
  readonly #size: ClusterSize;
  /** The pods that have replaced others, by Service and place in its list. */
  readonly #replaced = new Map<number, string[]>();
  #next = 0;

  constructor(api: StubApi, size: ClusterSize) {
    this.#api = api;
    this.#size = size;
  }

  /** The address of the endpoint that the next replacement brings. */
  get nextAddress(): string {
    return laterPodIP(this.#next);
  }

  /**
   * Replaces one endpoint, as a rolling update does, and tells the watches.
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
