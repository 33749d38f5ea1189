import { type ByFamily, byFamily, FAMILIES } from "../base/family.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { Service } from "../model/service.ts";
import { servicePortsOf } from "../model/service-port.ts";
import { AgeBudget, type Claim, type Shortfall } from "./age-budget.ts";
import { rangeCount } from "./element-count.ts";
import { contextOf, type FamilyContext, type NodeContext } from "./node-context.ts";

/** What a Service is served without where older ones leave too little of it: session affinity, ranges of ports. */
export type Feature = "affinity" | "ranges";

export const FEATURES = ["affinity", "ranges"] as const satisfies readonly Feature[];

/** The features in texts for people. */
export const FEATURE_NAMES: Readonly<Record<Feature, string>> = {
  affinity: "session affinity",
  ranges: "its ranges of ports",
};

/** How a feature is counted in a family, and what its budget is called. */
interface FeatureCount {
  readonly amountOf: (service: Service, context: FamilyContext) => number;
  readonly limitOf: (context: FamilyContext) => number;
  readonly what: string;
}

const COUNTS: Readonly<Record<Feature, FeatureCount>> = {
  affinity: {
    amountOf: ({ affinitySeconds, ports }) => (affinitySeconds > 0 ? ports.length : 0),
    limitOf: ({ maxStickyPorts }) => maxStickyPorts,
    what: "ports with session affinity in a family",
  },
  ranges: {
    amountOf: rangeCount,
    limitOf: ({ maxPortRanges }) => maxPortRanges,
    what: "ranges of ports at addresses of a family (--max-port-ranges)",
  },
};

interface ServiceClaim extends Claim {
  readonly service: Service;
}

/** Divides a feature among Services by age, for each family; the Services of one namespace get half of it at most. */
export class FeatureBudget {
  readonly #count: FeatureCount;
  readonly #budgets: ByFamily<AgeBudget<ServiceClaim>> = byFamily(() => new AgeBudget());
  #reasons: ReadonlyMap<ServicePortKey, string> = new Map();

  constructor(feature: Feature) {
    this.#count = COUNTS[feature];
  }

  /** The service ports that are served without the feature, each with the reason; another map where that changed. */
  get reasons(): ReadonlyMap<ServicePortKey, string> {
    return this.#reasons;
  }

  /** Whether no Service is served without the feature. */
  get isEnough(): boolean {
    return this.#reasons.size === 0;
  }

  /** Whether the ports of a Service in a family are served without the feature. */
  isShort(name: ServiceName, family: keyof ByFamily<unknown>): boolean {
    return this.#budgets[family].shortfalls.has(name);
  }

  /**
   * Replaces what Services want, and decides again.
   * @param names Services of which something changed
   * @param serviceOf what is known of a Service now; undefined for one that is not served
   * @returns the Services for which the decision changed
   */
  decide(
    names: Iterable<ServiceName>,
    serviceOf: (name: ServiceName) => Service | undefined,
    nodeContext: NodeContext,
  ): ReadonlySet<ServiceName> {
    const replaced: ServiceName[] = [];
    for (const name of names) if (this.#claim(name, serviceOf(name), nodeContext)) replaced.push(name);
    const before = this.#shortfalls();
    const changed = new Set<ServiceName>();
    for (const context of nodeContext) {
      const all = this.#count.limitOf(context);
      const limits = { all, namespace: Math.ceil(all / 2) };
      for (const name of this.#budgets[context.family].decide(limits)) changed.add(name);
    }
    const isOther = this.#shortfalls().some(
      (each, index) => each !== before[index] || replaced.some((name) => each.has(name)),
    );
    if (isOther) this.#reasons = this.#reasonsNow();
    return changed;
  }

  /** @returns whether it is another Service object than before */
  #claim(name: ServiceName, service: Service | undefined, nodeContext: NodeContext): boolean {
    let isReplaced = false;
    for (const family of FAMILIES) {
      const context = contextOf(nodeContext, family);
      const isServed = service !== undefined && context !== undefined && service.clusterIPs[family] !== "";
      const amount = isServed ? this.#count.amountOf(service, context) : 0;
      const budget = this.#budgets[family];
      const known = budget.claimOf(name);
      // Of most Services.
      if (amount === 0 && known === undefined) continue;
      isReplaced ||= known?.service !== service || amount === 0;
      budget.set(name, service !== undefined && amount > 0 ? { service, amount } : undefined);
    }
    return isReplaced;
  }

  #shortfalls() {
    return FAMILIES.map((family) => this.#budgets[family].shortfalls);
  }

  #reasonsNow(): ReadonlyMap<ServicePortKey, string> {
    const reasons = new Map<ServicePortKey, string>();
    for (const family of FAMILIES) {
      const budget = this.#budgets[family];
      for (const [name, short] of budget.shortfalls) {
        const service = budget.claimOf(name)?.service;
        const reason = this.#textOf(short);
        for (const port of service ? servicePortsOf(service) : [])
          if (port.family === family) reasons.set(port.key, reason);
      }
    }
    return reasons;
  }

  #textOf({ of, budget, left, wanted }: Shortfall): string {
    const whose = of === "all" ? "all Services together" : "the Services of a namespace";
    return `${whose} can have ${budget} ${this.#count.what}, and this one has ${wanted}, ${wanted - left} more than older ones leave`;
  }
}
