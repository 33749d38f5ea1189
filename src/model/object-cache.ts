import { exactList } from "../base/shared-values.ts";
import type { EndpointSlice } from "./endpoint-slice.ts";
import type { ServiceName } from "./ids.ts";
import { type Node, type ServiceCIDR, unknownNode } from "./node.ts";
import type { Service } from "./service.ts";

/** So many slices of a Service are looked through one by one: a list takes less memory than a map. */
const FEW = 32;

/** The slices of one Service: a list, or where there are many, a map by their names. */
type Slices = readonly EndpointSlice[] | Map<string, EndpointSlice>;

function listOf(slices: Slices): readonly EndpointSlice[] {
  return slices instanceof Map ? [...slices.values()] : slices;
}

/**
 * The objects as last seen, and which Services are dirty. It holds no more than the current state: the same
 * objects in any order, split or repeated, make the same cache.
 */
export class ObjectCache {
  readonly #services = new Map<ServiceName, Service>();
  readonly #slices = new Map<ServiceName, Slices>();
  readonly #serviceCIDRs = new Map<string, ServiceCIDR>();
  #node: Node;
  #isNodeKnown = false;
  #dirty = new Set<ServiceName>();

  readonly #serviceExternalIPs: boolean;

  /**
   * @param nodeName the name of this Node; its object may follow later, or never
   * @param options `serviceExternalIPs` is false if `spec.externalIPs` of Services are to be ignored
   */
  constructor(
    nodeName: string,
    { serviceExternalIPs = true }: { readonly serviceExternalIPs?: boolean } = {},
  ) {
    this.#node = unknownNode(nodeName);
    this.#serviceExternalIPs = serviceExternalIPs;
  }

  /** The node that we run on. */
  get node(): Node {
    return this.#node;
  }

  /** Whether our Node object has been seen. */
  get isNodeKnown(): boolean {
    return this.#isNodeKnown;
  }

  /** How many Services there are. */
  get serviceCount(): number {
    return this.#services.size;
  }

  /** How many EndpointSlices there are. */
  get sliceCount(): number {
    let count = 0;
    for (const slices of this.#slices.values()) count += slices instanceof Map ? slices.size : slices.length;
    return count;
  }

  /** The names of all Services, sorted. */
  serviceNames(): ServiceName[] {
    return [...this.#services.keys()].sort();
  }

  /** The Service of that name. */
  service(name: ServiceName): Service | undefined {
    return this.#services.get(name);
  }

  /** The slices of a Service. */
  slices(name: ServiceName): readonly EndpointSlice[] {
    return listOf(this.#slices.get(name) ?? []);
  }

  /** All slices, those of a Service together. */
  allSlices(): EndpointSlice[] {
    return [...this.#slices.values()].flatMap(listOf);
  }

  /** All ServiceCIDRs, sorted by name. */
  serviceCIDRs(): ServiceCIDR[] {
    return [...this.#serviceCIDRs.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Puts a Service, new or changed. */
  putService(service: Service): void {
    const stored = this.#serviceExternalIPs ? service : { ...service, externalIPs: { ip: [], ip6: [] } };
    this.#services.set(service.name, stored);
    this.#dirty.add(service.name);
  }

  /** Deletes a Service. Its slices stay: they are objects of their own. */
  deleteService(name: ServiceName): void {
    if (this.#services.delete(name)) this.#dirty.add(name);
  }

  /** Puts a slice, new or changed, also when it moved to another Service. */
  putSlice(slice: EndpointSlice, previous?: EndpointSlice): void {
    if (previous !== undefined && previous.service !== slice.service) this.deleteSlice(previous);
    const known = this.#slices.get(slice.service) ?? [];
    if (known instanceof Map) known.set(slice.name, slice);
    else {
      const slices = exactList([...known.filter(({ name }) => name !== slice.name), slice]);
      this.#slices.set(
        slice.service,
        slices.length > FEW ? new Map(slices.map((one) => [one.name, one])) : slices,
      );
    }
    this.#dirty.add(slice.service);
  }

  /** Deletes a slice. */
  deleteSlice({ service, name }: Pick<EndpointSlice, "service" | "name">): void {
    const known = this.#slices.get(service) ?? [];
    if (known instanceof Map) {
      if (!known.delete(name)) return;
      if (known.size === 0) this.#slices.delete(service);
    } else {
      const others = known.filter((other) => other.name !== name);
      if (others.length === known.length) return;
      if (others.length === 0) this.#slices.delete(service);
      else this.#slices.set(service, others);
    }
    this.#dirty.add(service);
  }

  /** Puts our Node; another node's object is ignored. */
  putNode(node: Node): void {
    if (node.name !== this.#node.name) return;
    this.#node = node;
    this.#isNodeKnown = true;
  }

  /** Puts a ServiceCIDR, new or changed. */
  putServiceCIDR(serviceCIDR: ServiceCIDR): void {
    this.#serviceCIDRs.set(serviceCIDR.name, serviceCIDR);
  }

  /** Deletes a ServiceCIDR. */
  deleteServiceCIDR(name: string): void {
    this.#serviceCIDRs.delete(name);
  }

  /** The Services that changed since {@link ObjectCache.takeDirty} was last called. */
  get dirty(): ReadonlySet<ServiceName> {
    return this.#dirty;
  }

  /** Hands over the dirty Services: those that changed since the last call, themselves or in their slices. */
  takeDirty(): ReadonlySet<ServiceName> {
    const changes = this.#dirty;
    this.#dirty = new Set();
    return changes;
  }
}
