import { type ByFamily, byFamily, FAMILIES } from "../base/family.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { Service } from "../model/service.ts";
import type { Excess } from "../model/service-budget.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { AgeBudget, type Claim, type Shortfall } from "./age-budget.ts";
import { elementCount, ownExcess } from "./element-count.ts";
import { contextOf, type NodeContext } from "./node-context.ts";

/** A Service and its slices, at the moment at which their elements were counted. */
interface Counted extends Claim {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
}

const NO_KEYS: ReadonlyMap<ServicePortKey, string> = new Map();

/**
 * Decides which Services are served, and which of them with session affinity. A Service beyond a budget of its own is not,
 * and takes nothing of what Services share: elements in the kernel, and the list ids of session affinity. These go to the
 * oldest Services ({@link AgeBudget}), so that nobody loses them to a newer one. A Service for which there are not enough
 * elements is not served at all; one for whose ports there are not enough ids is served without session affinity.
 *
 * Elements are counted from all endpoints and ids from all ports, so that no readiness probe changes a decision.
 */
export class SharedBudgets {
  readonly #elements = new AgeBudget<Counted>();
  readonly #stickyPorts: ByFamily<AgeBudget> = byFamily(() => new AgeBudget());
  /** The Services beyond a budget of their own. */
  readonly #excessive = new Map<ServiceName, { readonly service: Service; readonly excess: Excess }>();
  /** The Services that were counted since the last decision. */
  readonly #counted = new Set<ServiceName>();
  #withoutAffinity = NO_KEYS;

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
    const replaced = [...this.#counted, ...changed].filter((name) => this.#claimIds(name, nodeContext));
    this.#counted.clear();
    const before = this.#stickyShortfalls();
    for (const { family, maxStickyPorts } of nodeContext) {
      const limits = { all: maxStickyPorts, namespace: Math.ceil(maxStickyPorts / 2) };
      for (const name of this.#stickyPorts[family].decide(limits)) changed.add(name);
    }
    const isOther = this.#stickyShortfalls().some(
      (each, index) => each !== before[index] || replaced.some((name) => each.has(name)),
    );
    if (isOther) this.#withoutAffinity = this.#portsWithoutAffinity();
    return changed;
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

  /** The service ports that are served without session affinity, each with the reason; another map where that changed. */
  get withoutAffinity(): ReadonlyMap<ServicePortKey, string> {
    return this.#withoutAffinity;
  }

  /** The ports of a Service that is not served; none for one that is. */
  unserved(name: ServiceName): ServicePort[] {
    const isShort = this.#elements.shortfalls.has(name);
    const service = isShort ? this.#elements.claimOf(name)?.service : this.#excessive.get(name)?.service;
    return service === undefined ? [] : servicePortsOf(service);
  }

  /** The ports of a Service as they are served, and the slices of their endpoints; undefined for one that is not. */
  served(
    name: ServiceName,
  ): { readonly ports: readonly ServicePort[]; readonly slices: readonly EndpointSlice[] } | undefined {
    const counted = this.#elements.claimOf(name);
    if (counted === undefined || this.#elements.shortfalls.has(name)) return undefined;
    return { ports: this.asServed(counted.service), slices: counted.slices };
  }

  /** The ports of a Service, without session affinity where it is not kept. */
  asServed(service: Service): readonly ServicePort[] {
    const ports = servicePortsOf(service);
    if (service.affinitySeconds === 0) return ports;
    const plain = { ...service, affinitySeconds: 0 };
    return ports.map((port) =>
      this.#stickyPorts[port.family].shortfalls.has(service.name) ? { ...port, service: plain } : port,
    );
  }

  /** Claims ids for the ports of a Service. @returns whether it is another Service object than before */
  #claimIds(name: ServiceName, nodeContext: NodeContext): boolean {
    const service = this.#elements.shortfalls.has(name) ? undefined : this.#elements.claimOf(name)?.service;
    let isReplaced = false;
    for (const family of FAMILIES) {
      const isSticky = service && service.affinitySeconds > 0 && service.clusterIPs[family] !== "";
      const claim = isSticky && contextOf(nodeContext, family) ? { service, amount: service.ports.length } : undefined;
      const budget = this.#stickyPorts[family];
      isReplaced ||= budget.claimOf(name)?.service !== claim?.service;
      budget.set(name, claim);
    }
    return isReplaced;
  }

  #stickyShortfalls() {
    return [this.#stickyPorts.ip.shortfalls, this.#stickyPorts.ip6.shortfalls];
  }

  #portsWithoutAffinity(): ReadonlyMap<ServicePortKey, string> {
    const reasons = new Map<ServicePortKey, string>();
    for (const [family, { shortfalls }] of Object.entries(this.#stickyPorts)) {
      for (const [name, short] of shortfalls) {
        const service = this.#elements.claimOf(name)?.service;
        const reason = affinityText(short);
        for (const port of service ? servicePortsOf(service) : [])
          if (port.family === family) reasons.set(port.key, reason);
      }
    }
    return reasons;
  }
}

/** Of a node that programs no family. */
const NO_LIMITS = { maxElements: Number.POSITIVE_INFINITY, maxNamespaceElements: Number.POSITIVE_INFINITY };

function elementsExcess({ of, budget, left, wanted: count }: Shortfall): Excess {
  return { of: of === "all" ? "maxElements" : "maxNamespaceElements", count, budget, left };
}

function affinityText({ of, budget, left, wanted }: Shortfall): string {
  const whose = of === "all" ? "all Services together" : "the Services of a namespace";
  return `${whose} can have ${budget} ports with session affinity in a family, and this one has ${wanted}, ${wanted - left} more than older ones leave`;
}
