import { FAMILIES } from "../base/family.ts";
import type { Excess } from "../model/budgets.ts";
import { comparingPorts } from "../model/endpoint.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName } from "../model/ids.ts";
import type { Service } from "../model/service.ts";
import { type ServedObjects, type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { AgeBudget, type Claim, type Shortfall } from "./age-budget.ts";
import { counting, NO_AMOUNTS, ownExcess, type ServiceCount } from "./element-count.ts";
import { budgetsOf, FeatureBudget } from "./feature-budget.ts";
import type { FeatureBudgetParts, NodeContext } from "./node-context.ts";
import { PortReasons } from "./port-reasons.ts";

/** A Service and its slices when their elements were counted. */
interface Counted extends Claim, ServedObjects, Pick<ServiceCount, "amounts"> {
  readonly service: Service;
  /** Its ports with all features, once somebody has asked. They stay the same objects while it does. */
  ports: readonly ServicePort[] | undefined;
}

/**
 * Decides which Services are served, and with which features. A Service beyond its own budget is not served.
 * Shared resources are elements in the kernel, list ids of session affinity, and those of features. They go
 * to the oldest Services ({@link AgeBudget}), so that a newer one never takes them. Without enough elements,
 * a Service is not served at all. Without enough of anything else, it loses the feature that needs it, such
 * as session affinity for ids.
 *
 * Elements are counted from all endpoints and ids from all ports, so that readiness probes change no
 * decision.
 */
export class SharedBudgets {
  readonly #elements = new AgeBudget<Counted>();
  /** The elements that all Services within their own budgets want, and the namespace that wants the most. */
  readonly elements: Pick<AgeBudget, "claimed" | "largest"> = this.#elements;
  /** By name. */
  readonly #features: ReadonlyMap<string, FeatureBudget>;
  /** The Services that exceed their own budget. */
  readonly #excessive = new Map<ServiceName, { readonly service: Service; readonly excess: Excess }>();
  /** The Services counted since the last decision. */
  readonly #counted = new Set<ServiceName>();
  /** All budgets but the one of elements. */
  readonly features: readonly FeatureBudgetParts[];

  constructor(nodeContext: NodeContext) {
    this.features = budgetsOf(nodeContext);
    this.#features = new Map(this.features.map((parts) => [parts.name, new FeatureBudget(parts)]));
  }

  /**
   * Counts a Service again, in steps. Call {@link SharedBudgets.decide} afterwards.
   * @param service undefined for a deleted one
   * @returns the names of the ports whose slices changed since it was last counted; undefined if the Service
   * itself did
   */
  *recounting(
    name: ServiceName,
    service: Service | undefined,
    slices: readonly EndpointSlice[],
    nodeContext: NodeContext,
  ): Generator<undefined, ReadonlySet<string> | undefined> {
    const before = this.#elements.claimOf(name);
    const known = before?.service === service ? before : undefined;
    const count = service && (yield* counting(service, slices, nodeContext, this.features));
    const changed = known && (yield* comparingPorts(known.slices, slices));
    this.#counted.add(name);
    this.#excessive.delete(name);
    const excess = service && count && ownExcess(service, count, nodeContext);
    if (service !== undefined && excess !== undefined) this.#excessive.set(name, { service, excess });
    const isCounted = service !== undefined && count !== undefined && excess === undefined;
    const { elements: amount = 0, amounts = NO_AMOUNTS } = count ?? {};
    this.#elements.set(
      name,
      isCounted ? { service, slices, amount, amounts, ports: known?.ports } : undefined,
    );
    return changed;
  }

  /**
   * Decides which Services are served, and how.
   * @returns the Services whose outcome changed, besides those that were counted
   */
  decide(nodeContext: NodeContext): ReadonlySet<ServiceName> {
    const { maxElements: all, maxNamespaceElements: namespace } = nodeContext[0] ?? NO_LIMITS;
    const changed = new Set(this.#elements.decide({ all, namespace }));
    for (const name of changed) this.#counted.add(name);
    const countOf = (name: ServiceName) => this.#claimServed(name);
    for (const feature of this.#features.values())
      for (const name of feature.decide(this.#counted, countOf, nodeContext)) changed.add(name);
    this.#counted.clear();
    return changed;
  }

  /** The last count of elements of a Service within its own budget; 0 for others. */
  elementsOf(name: ServiceName): number {
    return this.#elements.claimOf(name)?.amount ?? 0;
  }

  /** The budget whose excess keeps a Service from being served; undefined if it is served. */
  excessOf(name: ServiceName): Excess | undefined {
    const short = this.#elements.shortfalls.get(name);
    return short === undefined ? this.#excessive.get(name)?.excess : elementsExcess(short);
  }

  /** The Services for which older ones leave too few elements. A new map after each change. */
  get shortfalls(): ReadonlyMap<ServiceName, unknown> {
    return this.#elements.shortfalls;
  }

  /** The service ports served without a feature, each with the reason. A new map after each change. */
  without(feature: string): PortReasons {
    return this.#features.get(feature)?.reasons ?? NONE;
  }

  /** A Service that is not served, as it was counted; undefined if it is served. */
  unserved(name: ServiceName): Service | undefined {
    const isShort = this.#elements.shortfalls.has(name);
    return isShort ? this.#elements.claimOf(name)?.service : this.#excessive.get(name)?.service;
  }

  /** The ports of a Service as served, and the slices of their endpoints; undefined if it is not served. */
  served(name: ServiceName): Served | undefined {
    const counted = this.#claimServed(name);
    if (counted === undefined) return undefined;
    const { service, slices } = counted;
    if (!this.#isEnough) return { ports: this.asServed(service), slices };
    counted.ports ??= servicePortsOf(service);
    return { ports: counted.ports, slices };
  }

  /** Whether no Service is served without a feature. */
  get #isEnough(): boolean {
    for (const { isEnough } of this.#features.values()) if (!isEnough) return false;
    return true;
  }

  /** The ports of a Service, without the features that it loses. */
  asServed(service: Service): readonly ServicePort[] {
    if (this.#isEnough) return servicePortsOf(service);
    const features = [...this.#features.values()];
    return FAMILIES.flatMap((family) => {
      const served = features.reduce((one, feature) => feature.served(one, family), service);
      return servicePortsOf(served).filter((port) => port.family === family);
    });
  }

  /** A Service that is within its own budget, and to which older ones leave enough; undefined for others. */
  #claimServed(name: ServiceName): Counted | undefined {
    return this.#elements.shortfalls.has(name) ? undefined : this.#elements.claimOf(name);
  }
}

/** The ports of a Service as served, and the slices of their endpoints, when these were counted. */
export interface Served {
  readonly ports: readonly ServicePort[];
  readonly slices: readonly EndpointSlice[];
}

const NONE = new PortReasons(new Map());

/** For a node that programs no family. */
const NO_LIMITS = { maxElements: Number.POSITIVE_INFINITY, maxNamespaceElements: Number.POSITIVE_INFINITY };

function elementsExcess({ of, budget, left, wanted: count }: Shortfall): Excess {
  return { of: of === "all" ? "maxElements" : "maxNamespaceElements", count, budget, left };
}
