import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { Service, ServicePortSpec } from "../model/service.ts";
import type { Excess } from "../model/service-budget.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { AgeBudget, type Claim, type Shortfall } from "./age-budget.ts";
import { elementCount, ownExcess } from "./element-count.ts";
import { FEATURES, type Feature, FeatureBudget } from "./feature-budget.ts";
import type { NodeContext } from "./node-context.ts";

/** A Service and its slices, at the moment at which their elements were counted. */
interface Counted extends Claim {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
}

/**
 * Decides which Services are served, and with which features. A Service beyond a budget of its own is not served, and takes
 * nothing of what Services share: elements in the kernel, the list ids of session affinity, and ranges of ports. These go to the
 * oldest Services ({@link AgeBudget}), so that nobody loses them to a newer one. A Service for which there are not enough
 * elements is not served at all; one for whose ports there are not enough ids is served without session affinity, and one for
 * whose ranges there is no room without these.
 *
 * Elements are counted from all endpoints and ids from all ports, so that no readiness probe changes a decision.
 */
export class SharedBudgets {
  readonly #elements = new AgeBudget<Counted>();
  readonly #features = {
    affinity: new FeatureBudget("affinity"),
    ranges: new FeatureBudget("ranges"),
  } as const;
  /** The Services beyond a budget of their own. */
  readonly #excessive = new Map<ServiceName, { readonly service: Service; readonly excess: Excess }>();
  /** The Services that were counted since the last decision. */
  readonly #counted = new Set<ServiceName>();

  /**
   * Counts a Service as it is now; {@link SharedBudgets.decide} is due after it.
   * @param service undefined for one that is gone
   */
  count(
    name: ServiceName,
    service: Service | undefined,
    slices: readonly EndpointSlice[],
    nodeContext: NodeContext,
  ): void {
    this.#counted.add(name);
    this.#excessive.delete(name);
    if (service === undefined) {
      this.#elements.set(name, undefined);
      return;
    }
    const amount = elementCount(service, slices, nodeContext);
    const excess = ownExcess(service, amount, nodeContext);
    if (excess !== undefined) this.#excessive.set(name, { service, excess });
    this.#elements.set(name, excess === undefined ? { service, slices, amount } : undefined);
  }

  /**
   * Decides who is served, and how.
   * @returns the Services for which that changed, beside those that were counted
   */
  decide(nodeContext: NodeContext): ReadonlySet<ServiceName> {
    const { maxElements: all, maxNamespaceElements: namespace } = nodeContext[0] ?? NO_LIMITS;
    const changed = new Set(this.#elements.decide({ all, namespace }));
    for (const name of changed) this.#counted.add(name);
    for (const feature of FEATURES) {
      const decided = this.#features[feature].decide(
        this.#counted,
        (name) => this.#claimServed(name)?.service,
        nodeContext,
      );
      for (const name of decided) changed.add(name);
    }
    this.#counted.clear();
    return changed;
  }

  /** The elements of a Service that is within its own budget, as counted last; 0 for others. */
  elementsOf(name: ServiceName): number {
    return this.#elements.claimOf(name)?.amount ?? 0;
  }

  /** The budget that a Service exceeds, or for which older ones leave too little; undefined for one that is served. */
  excessOf(name: ServiceName): Excess | undefined {
    const short = this.#elements.shortfalls.get(name);
    return short === undefined ? this.#excessive.get(name)?.excess : elementsExcess(short);
  }

  /** The Services that are not served because older ones leave too few elements; another map where a reason changed. */
  get short(): ReadonlyMap<ServiceName, unknown> {
    return this.#elements.shortfalls;
  }

  /** The service ports that are served without a feature, each with the reason; another map where that changed. */
  without(feature: Feature): ReadonlyMap<ServicePortKey, string> {
    return this.#features[feature].reasons;
  }

  /** The ports of a Service that is not served; none for one that is. */
  unserved(name: ServiceName): ServicePort[] {
    const isShort = this.#elements.shortfalls.has(name);
    const service = isShort ? this.#elements.claimOf(name)?.service : this.#excessive.get(name)?.service;
    return service === undefined ? [] : servicePortsOf(service);
  }

  /** The ports of a Service as they are served, and the slices of their endpoints; undefined for one that is not. */
  served(name: ServiceName): Served | undefined {
    const counted = this.#claimServed(name);
    return counted && { ports: this.asServed(counted.service), slices: counted.slices };
  }

  /** The ports of a Service, without the features for which there is no room. */
  asServed(service: Service): readonly ServicePort[] {
    const { affinity, ranges } = this.#features;
    const ports = servicePortsOf(service);
    if (affinity.isEnough && ranges.isEnough) return ports;
    const plain = { ...service, affinitySeconds: 0 };
    return ports.map((port) => {
      const isPlain = affinity.isShort(service.name, port.family);
      const isUnranged = ranges.isShort(service.name, port.family);
      if (!isPlain && !isUnranged) return port;
      return {
        ...port,
        service: isPlain ? plain : service,
        spec: isUnranged ? withoutRanges(port.spec) : port.spec,
      };
    });
  }

  /** A Service that is within its own budget, and to which older ones leave enough; undefined for others. */
  #claimServed(name: ServiceName): Counted | undefined {
    return this.#elements.shortfalls.has(name) ? undefined : this.#elements.claimOf(name);
  }
}

/** The ports of a Service as they are served, and the slices of their endpoints, at the moment at which these were counted. */
export interface Served {
  readonly ports: readonly ServicePort[];
  readonly slices: readonly EndpointSlice[];
}

function withoutRanges({ ranges: _, ...spec }: ServicePortSpec): ServicePortSpec {
  return spec;
}

/** Of a node that programs no family. */
const NO_LIMITS = { maxElements: Number.POSITIVE_INFINITY, maxNamespaceElements: Number.POSITIVE_INFINITY };

function elementsExcess({ of, budget, left, wanted: count }: Shortfall): Excess {
  return { of: of === "all" ? "maxElements" : "maxNamespaceElements", count, budget, left };
}
