import type { ResourceName } from "../../../src/kube/source.ts";
import { Collection } from "./collection.ts";
import type { OpenWatch } from "./open-watch.ts";
import { keyOf, type StubObject } from "./selectors.ts";

/** The path and type of each resource. */
export const TYPES: Readonly<Record<ResourceName, { path: string; apiVersion: string; kind: string }>> = {
  services: { path: "/api/v1/services", apiVersion: "v1", kind: "Service" },
  endpointslices: {
    path: "/apis/discovery.k8s.io/v1/endpointslices",
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
  },
  nodes: { path: "/api/v1/nodes", apiVersion: "v1", kind: "Node" },
  servicecidrs: {
    path: "/apis/networking.k8s.io/v1/servicecidrs",
    apiVersion: "networking.k8s.io/v1",
    kind: "ServiceCIDR",
  },
};

/** The objects of a simulated cluster. Every change is sent to the open watches. */
export class StubCluster {
  /** Resources that this cluster does not serve. */
  readonly absent = new Set<ResourceName>();
  readonly #collections: Readonly<Record<ResourceName, Collection>> = {
    services: new Collection(TYPES.services),
    endpointslices: new Collection(TYPES.endpointslices),
    nodes: new Collection(TYPES.nodes),
    servicecidrs: new Collection(TYPES.servicecidrs),
  };
  #version = 1;

  /** The newest resourceVersion. */
  get version(): number {
    return this.#version;
  }

  /** Returns the objects of a resource, with their history. */
  collection(resource: ResourceName): Collection {
    return this.#collections[resource];
  }

  /** Returns the current objects, in no particular order. */
  objects(resource: ResourceName): readonly StubObject[] {
    return [...this.#collections[resource].objects.values()];
  }

  /** Returns the open watches of a resource. */
  watches(resource: ResourceName): readonly OpenWatch[] {
    return [...this.#collections[resource].watches];
  }

  /**
   * Adds or changes an object, with a new version and, if it is new and has none, a new uid. Returns the
   * stored object.
   */
  put(resource: ResourceName, object: StubObject): StubObject {
    this.#version += 1;
    const version = String(this.#version);
    const uid = this.#collections[resource].objects.get(keyOf(object))?.metadata.uid ?? `uid-${version}`;
    const metadata = { uid, ...object.metadata, resourceVersion: version };
    const kept = { ...object, metadata };
    this.#collections[resource].put(kept, this.#version);
    return kept;
  }

  /** Deletes an object. */
  remove(resource: ResourceName, object: StubObject): void {
    this.#version += 1;
    const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
    this.#collections[resource].remove({ ...object, metadata }, this.#version);
  }

  /** Applies a recorded line of a watch, with its recorded version. */
  replay(resource: ResourceName, line: string): void {
    const event: { type: string; object: StubObject } = JSON.parse(line);
    this.#version = Math.max(this.#version, Number(event.object.metadata.resourceVersion));
    const collection = this.#collections[resource];
    if (event.type === "BOOKMARK") collection.bookmark(this.#version);
    else if (event.type === "DELETED") collection.remove(event.object, this.#version);
    else collection.put(event.object, this.#version);
  }

  /** Adds the objects of a recorded list, with their recorded versions. */
  load(
    resource: ResourceName,
    list: { metadata: { resourceVersion: string }; items: readonly StubObject[] },
  ): void {
    this.#version = Math.max(this.#version, Number(list.metadata.resourceVersion));
    for (const item of list.items) this.#collections[resource].put(item, this.#version);
  }

  /** Sends a bookmark to all watches of a resource. */
  bookmark(resource: ResourceName): void {
    this.#version += 1;
    this.#collections[resource].bookmark(this.#version);
  }

  /** Discards the history, so that watches from older versions get 410. */
  compact(resource: ResourceName): void {
    this.#version += 1;
    this.#collections[resource].compact(this.#version);
  }

  /** Deletes an object without sending an event to the watches. */
  removeSilently(resource: ResourceName, object: StubObject): void {
    this.#version += 1;
    this.#collections[resource].objects.delete(keyOf(object));
  }
}
