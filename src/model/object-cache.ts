import { type ByFamily, byFamily, FAMILIES, type Family } from "../base/family.ts";
import { exactList } from "../base/shared-values.ts";
import type { EndpointSlice } from "./endpoint-slice.ts";
import type { ServiceName } from "./ids.ts";
import { type Node, type ServiceCIDR, unknownNode } from "./node.ts";
import type { Service } from "./service.ts";

/** Maximum number of slices of a Service in a list, which takes less memory than a map. */
const FEW = 32;

/** The slices of one Service: a list, or a map by name if there are many. */
type Slices = readonly EndpointSlice[] | Map<string, EndpointSlice>;

/** Takes each change of a Service or slice, after it was made; undefined for an object that is not there. */
export interface ObjectObserver {
  service(before: Service | undefined, after: Service | undefined): void;
  slice(before: EndpointSlice | undefined, after: EndpointSlice | undefined): void;
}

function listOf(slices: Slices): readonly EndpointSlice[] {
  return slices instanceof Map ? [...slices.values()] : slices;
}

function countOf(slices: Slices): number {
  return slices instanceof Map ? slices.size : slices.length;
}

function namedIn(slices: Slices, wanted: string): EndpointSlice | undefined {
  return slices instanceof Map ? slices.get(wanted) : slices.find(({ name }) => name === wanted);
}

/** The fields of our Node whose last known values stay if it loses them. */
export const NODE_FIELDS = ["addresses", "podCIDRs", "zone"] as const;

/**
 * The last known objects, and the dirty Services. The content depends only on the current objects, not on how
 * often they changed, in which order or in which batches; but see {@link ObjectCache.putNode}.
 */
export class ObjectCache {
  readonly #services = new Map<ServiceName, Service>();
  readonly #slices = new Map<ServiceName, Slices>();
  readonly #serviceCIDRs = new Map<string, ServiceCIDR>();
  #node: Node;
  #isNodeKnown = false;
  #dirty = new Set<ServiceName>();
  /** The endpoints that do not answer this node (`address . port`), in the order of ejection. */
  readonly #ejected: ByFamily<Set<string>> = byFamily(() => new Set());
  readonly #observers: ObjectObserver[] = [];

  readonly #serviceExternalIPs: boolean;

  /**
   * @param nodeName the name of this Node, whose object may follow later or never
   * @param options serviceExternalIPs: false to ignore `spec.externalIPs` of Services
   */
  constructor(nodeName: string, { serviceExternalIPs = true }: { serviceExternalIPs?: boolean } = {}) {
    this.#node = unknownNode(nodeName);
    this.#serviceExternalIPs = serviceExternalIPs;
  }

  /** Tells an observer of all changes from now on. */
  observe(observer: ObjectObserver): void {
    this.#observers.push(observer);
  }

  get node(): Node {
    return this.#node;
  }

  /** Whether our Node object has been seen. */
  get isNodeKnown(): boolean {
    return this.#isNodeKnown;
  }

  get serviceCount(): number {
    return this.#services.size;
  }

  get sliceCount(): number {
    let count = 0;
    for (const slices of this.#slices.values()) count += countOf(slices);
    return count;
  }

  /** The names of all Services, sorted. */
  serviceNames(): ServiceName[] {
    return [...this.#services.keys()].sort();
  }

  service(name: ServiceName): Service | undefined {
    return this.#services.get(name);
  }

  slices(name: ServiceName): readonly EndpointSlice[] {
    return listOf(this.#slices.get(name) ?? []);
  }

  /** All slices, grouped by Service. */
  allSlices(): EndpointSlice[] {
    return [...this.#slices.values()].flatMap(listOf);
  }

  /** Number of Nodes with endpoints, an estimate of the cluster's size. */
  countNodes(): number {
    const names = new Set<string>();
    for (const { endpoints } of this.allSlices()) for (const name of endpoints.nodes) names.add(name);
    names.delete("");
    return names.size;
  }

  /** All ServiceCIDRs, sorted by name. */
  serviceCIDRs(): ServiceCIDR[] {
    return [...this.#serviceCIDRs.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Adds or replaces a Service. */
  putService(service: Service): void {
    const stored = this.#serviceExternalIPs ? service : { ...service, externalIPs: { ip: [], ip6: [] } };
    const before = this.#services.get(service.name);
    this.#services.set(service.name, stored);
    this.#dirty.add(service.name);
    for (const observer of this.#observers) observer.service(before, stored);
  }

  /** Deletes a Service, but not its slices, which are objects of their own. */
  deleteService(name: ServiceName): void {
    const before = this.#services.get(name);
    if (!this.#services.delete(name)) return;
    this.#dirty.add(name);
    for (const observer of this.#observers) observer.service(before, undefined);
  }

  /** Adds or replaces a slice, which may have moved to another Service. */
  putSlice(slice: EndpointSlice, previous?: EndpointSlice): void {
    if (previous !== undefined && previous.service !== slice.service) this.deleteSlice(previous);
    const earlier = this.#slices.get(slice.service) ?? [];
    const before = namedIn(earlier, slice.name);
    if (earlier instanceof Map) earlier.set(slice.name, slice);
    else {
      const slices = exactList([...earlier.filter((one) => one !== before), slice]);
      this.#slices.set(
        slice.service,
        slices.length > FEW ? new Map(slices.map((one) => [one.name, one])) : slices,
      );
    }
    this.#dirty.add(slice.service);
    for (const observer of this.#observers) observer.slice(before, slice);
  }

  deleteSlice({ service, name }: Pick<EndpointSlice, "service" | "name">): void {
    const earlier = this.#slices.get(service) ?? [];
    const before = namedIn(earlier, name);
    if (before === undefined) return;
    if (earlier instanceof Map) earlier.delete(name);
    const others = earlier instanceof Map ? earlier : earlier.filter((one) => one !== before);
    if (countOf(others) === 0) this.#slices.delete(service);
    else this.#slices.set(service, others);
    this.#dirty.add(service);
    for (const observer of this.#observers) observer.slice(before, undefined);
  }

  /**
   * Replaces our Node. If it lost its addresses, pod CIDRs or zone, the last known ones stay: a Node that was
   * deleted and made again has no status at first, and without its addresses every NodePort would be refused.
   * @returns the {@link NODE_FIELDS} that our Node lost; undefined for another node
   */
  putNode(node: Node): readonly string[] | undefined {
    if (node.name !== this.#node.name) return undefined;
    const { zone, addresses, podCIDRs } = this.#node;
    const hasCIDRs = (of: Node["podCIDRs"]) => FAMILIES.some((family) => of[family].length > 0);
    const lost: Record<(typeof NODE_FIELDS)[number], boolean> = {
      addresses: FAMILIES.some((family) => node.addresses[family] === "" && addresses[family] !== ""),
      podCIDRs: !hasCIDRs(node.podCIDRs) && hasCIDRs(podCIDRs),
      zone: node.zone === "" && zone !== "",
    };
    this.#node = {
      ...node,
      addresses: byFamily((family) => node.addresses[family] || addresses[family]),
      podCIDRs: lost.podCIDRs ? podCIDRs : node.podCIDRs,
      zone: node.zone || zone,
    };
    this.#isNodeKnown = true;
    return NODE_FIELDS.filter((name) => lost[name]);
  }

  /** Adds or replaces a ServiceCIDR. */
  putServiceCIDR(serviceCIDR: ServiceCIDR): void {
    this.#serviceCIDRs.set(serviceCIDR.name, serviceCIDR);
  }

  deleteServiceCIDR(name: string): void {
    this.#serviceCIDRs.delete(name);
  }

  get ejected(): ByFamily<ReadonlySet<string>> {
    return this.#ejected;
  }

  /** Ejects an endpoint, or readmits it. The given Services, which have it, become dirty. */
  setEjected(family: Family, target: string, isEjected: boolean, services: Iterable<ServiceName>): void {
    const targets = this.#ejected[family];
    if (targets.has(target) === isEjected) return;
    if (isEjected) targets.add(target);
    else targets.delete(target);
    for (const name of services) this.#dirty.add(name);
  }

  /** The Services that changed since the last {@link ObjectCache.takeDirty}. */
  get dirty(): ReadonlySet<ServiceName> {
    return this.#dirty;
  }

  /** Returns the Services that changed since the last call: they, their slices or their ejected endpoints. */
  takeDirty(): ReadonlySet<ServiceName> {
    const changes = this.#dirty;
    this.#dirty = new Set();
    return changes;
  }
}
