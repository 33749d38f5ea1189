import { type ByFamily, byFamily, FAMILIES } from "../base/family.ts";
import type { ServiceName } from "../model/ids.ts";
import { type Service, withoutFeature } from "../model/service.ts";
import { AgeBudget, type Claim, type Shortfall } from "./age-budget.ts";
import type { ServiceCount } from "./element-count.ts";
import { contextOf, type FeatureBudgetParts, type NodeContext, type OwnBudget } from "./node-context.ts";
import { AllPorts, PortReasons } from "./port-reasons.ts";

/** Budgets of what every node has. A Service is served without it if older Services leave too little. */
const BUDGETS: readonly FeatureBudgetParts[] = [
  {
    name: "affinity",
    text: "session affinity",
    topic: "affinity",
    event: "SessionAffinityNotKept",
    path: "spec.sessionAffinity",
    amountOf: ({ service: { affinitySeconds, ports } }) => (affinitySeconds > 0 ? ports.length : 0),
    limitOf: ({ maxStickyPorts }) => maxStickyPorts,
    what: "ports with session affinity in a family",
    without: (service) => ({ ...service, affinitySeconds: 0 }),
  },
];

/** How many different settings of a feature a family may have. Each has a chain. */
const MOST_SETTINGS = 64;

/** These, and the budgets of the enabled features. */
export function budgetsOf(nodeContext: NodeContext): readonly FeatureBudgetParts[] {
  const features = nodeContext[0]?.features ?? [];
  return [...BUDGETS, ...features.flatMap(({ name, budget }) => (budget ? [budgetOf(name, budget)] : []))];
}

function budgetOf(name: string, budget: OwnBudget): FeatureBudgetParts {
  const { most = MOST_SETTINGS, limitOf = () => most, ...parts } = budget;
  return {
    without: (service) => withoutFeature(service, name),
    ...parts,
    name,
    limitOf: (context) => (context.lacking.includes(name) ? 0 : limitOf(context)),
  };
}

interface ServiceClaim extends Claim {
  readonly service: Service;
}

/** A Service with what it wants of budgets. */
interface CountedService extends Pick<ServiceCount, "amounts"> {
  readonly service: Service;
}

/** Divides a feature among Services by age, for each family. One namespace gets at most half. */
export class FeatureBudget {
  readonly #count: FeatureBudgetParts;
  readonly #budgets: ByFamily<AgeBudget<ServiceClaim>> = byFamily(() => new AgeBudget());
  #reasons = new PortReasons(new Map());

  constructor(count: FeatureBudgetParts) {
    this.#count = count;
  }

  /** The service ports served without the feature, each with the reason. A new map after each change. */
  get reasons(): PortReasons {
    return this.#reasons;
  }

  /** Whether no Service is served without the feature. */
  get isEnough(): boolean {
    return this.#reasons.size === 0;
  }

  /** A Service as its ports in a family are served: without the feature, if older ones leave too little. */
  served(service: Service, family: keyof ByFamily<unknown>): Service {
    return this.#budgets[family].shortfalls.has(service.name) ? this.#count.without(service) : service;
  }

  /**
   * Replaces the claims of Services, and divides again.
   * @param names the Services that changed
   * @param countOf a Service as it was counted; undefined if it is not served
   * @returns the Services whose outcome changed
   */
  decide(
    names: Iterable<ServiceName>,
    countOf: (name: ServiceName) => CountedService | undefined,
    nodeContext: NodeContext,
  ): ReadonlySet<ServiceName> {
    const replaced: ServiceName[] = [];
    for (const name of names) if (this.#claim(name, countOf(name), nodeContext)) replaced.push(name);
    const before = this.#shortfalls();
    const changed = new Set<ServiceName>();
    for (const context of nodeContext) {
      const all = this.#count.limitOf(context);
      const limits = { all, namespace: Math.ceil(all / 2) };
      for (const name of this.#budgets[context.family].decide(limits)) changed.add(name);
    }
    const after = this.#shortfalls();
    if (after.some((each, index) => each !== before[index]))
      this.#reasons = this.#reasonsOf(after.flatMap((each) => [...each.keys()]));
    else if (replaced.some((name) => after.some((each) => each.has(name))))
      this.#reasons = this.#reasonsOf(replaced, this.#reasons.services);
    return changed;
  }

  /** @returns whether the Service object has changed */
  #claim(name: ServiceName, served: CountedService | undefined, nodeContext: NodeContext): boolean {
    const service = served?.service;
    let isReplaced = false;
    for (const family of FAMILIES) {
      const isProgrammed = contextOf(nodeContext, family) !== undefined;
      const amount = isProgrammed ? (served?.amounts.get(this.#count.name)?.[family] ?? 0) : 0;
      const budget = this.#budgets[family];
      const known = budget.claimOf(name);
      // Most Services do not use the feature.
      if (amount === 0 && known === undefined) continue;
      isReplaced ||= known?.service !== service || amount === 0;
      const shared = served && this.#count.sharedOf?.(served);
      budget.set(name, service !== undefined && amount > 0 ? { service, amount, shared } : undefined);
    }
    return isReplaced;
  }

  #shortfalls() {
    return FAMILIES.map((family) => this.#budgets[family].shortfalls);
  }

  /** @param others the reasons of other Services */
  #reasonsOf(names: Iterable<ServiceName>, others: PortReasons["services"] = new Map()): PortReasons {
    const services = new Map(others);
    for (const name of names) {
      const parts = FAMILIES.flatMap((family) => {
        const short = this.#budgets[family].shortfalls.get(name);
        const service = this.#budgets[family].claimOf(name)?.service;
        const isServed = short === undefined || service === undefined;
        return isServed ? [] : [new AllPorts(service, [family], this.#textOf(short))];
      });
      if (parts.length === 0) services.delete(name);
      else services.set(name, parts);
    }
    return new PortReasons(services);
  }

  #textOf({ of, budget, left, wanted }: Shortfall): string {
    const { none } = this.#count;
    if (budget === 0 && none !== undefined) return none;
    const whose = of === "all" ? "all Services together" : "the Services of a namespace";
    return `${whose} can have ${budget} ${this.#count.what}, and this one has ${wanted}, ${wanted - left} more than older ones leave`;
  }
}
