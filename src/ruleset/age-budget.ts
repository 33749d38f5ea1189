import { lowerBound } from "../base/first-sorted.ts";
import { addToCount } from "../base/group-by.ts";
import { namespaceOf, type ServiceName } from "../model/ids.ts";
import { compareAge, type Service } from "../model/service.ts";

/** The limits of a shared resource: for all Services together, and for the Services of one namespace. */
export interface SharedLimits {
  readonly all: number;
  readonly namespace: number;
}

/** The amount that a Service wants. */
export interface Claim {
  readonly service: Pick<Service, "name" | "createdAt">;
  readonly amount: number;
  /** Claims with equal names here want the same thing: only the oldest is charged. */
  readonly shared?: string | undefined;
}

/** The reason why a Service's claim is not met. */
export interface Shortfall {
  readonly of: keyof SharedLimits;
  readonly budget: number;
  /** The amount that older Services leave. */
  readonly left: number;
  readonly wanted: number;
}

type Shortfalls = ReadonlyMap<ServiceName, Shortfall>;

const UNLIMITED: SharedLimits = { all: Number.POSITIVE_INFINITY, namespace: Number.POSITIVE_INFINITY };
const NONE: Shortfalls = new Map();
const NO_SERVICES: ReadonlySet<ServiceName> = new Set();

/**
 * Divides a resource among Services by age. From the oldest to the newest, each Service gets all that it
 * wants if its namespace's limit and the total limit leave enough; otherwise it gets nothing. A newer Service
 * that wants less may still get that. So the outcome depends on older Services and on current claims, not on
 * history.
 *
 * A shared claim counts once, for the oldest Service that has it; in a namespace's share, for the oldest of
 * that namespace.
 *
 * While there is enough for all, a claim costs a few additions. Otherwise a change of a claim costs one pass
 * over all claims.
 */
export class AgeBudget<C extends Claim = Claim> {
  readonly #claims = new Map<ServiceName, C>();
  readonly #sums = new Map<string, number>();
  #sum = 0;
  #limits = UNLIMITED;
  /** The namespaces whose claims exceed their share. */
  #over = new Set<string>();
  /** Oldest first; undefined while there is enough for all. */
  #order: C[] | undefined;
  #shortfalls = NONE;
  #isDecided = true;

  /** The Services that get nothing, as of the last decision. A new map after each change. */
  get shortfalls(): Shortfalls {
    return this.#shortfalls;
  }

  /** The amount that all Services want. */
  get claimed(): number {
    return this.#sum;
  }

  /** The namespace whose Services want the most, and the amount; undefined without claims. */
  get largest(): readonly [namespace: string, amount: number] | undefined {
    let largest: readonly [string, number] | undefined;
    for (const sum of this.#sums) if (sum[1] > (largest?.[1] ?? 0)) largest = sum;
    return largest;
  }

  claimOf(name: ServiceName): C | undefined {
    return this.#claims.get(name);
  }

  /** Replaces the claim of a Service; undefined deletes it. */
  set(name: ServiceName, claim: C | undefined): void {
    const known = this.#claims.get(name);
    if (claim === undefined) this.#claims.delete(name);
    else this.#claims.set(name, claim);
    if (this.#order !== undefined) reorder(this.#order, known, claim);
    const added = (claim?.amount ?? 0) - (known?.amount ?? 0);
    const isSame = known?.service.createdAt === claim?.service.createdAt && known?.shared === claim?.shared;
    if (added === 0 && isSame) return;
    this.#isDecided = false;
    this.#sum += added;
    const namespace = namespaceOf(name);
    const sum = addToCount(this.#sums, namespace, added);
    if (sum > this.#limits.namespace) this.#over.add(namespace);
    else this.#over.delete(namespace);
  }

  /** Divides the amount again. @returns the Services whose outcome changed */
  decide(limits: SharedLimits): ReadonlySet<ServiceName> {
    this.#setLimits(limits);
    if (this.#isDecided) return NO_SERVICES;
    this.#isDecided = true;
    const before = this.#shortfalls;
    const isEnough = this.#sum <= limits.all && this.#over.size === 0;
    if (isEnough) this.#order = undefined;
    const after = isEnough ? NONE : this.#divide();
    if (!areSame(before, after)) this.#shortfalls = after;
    return new Set(
      [...before.keys(), ...after.keys()].filter((name) => before.has(name) !== after.has(name)),
    );
  }

  #setLimits(limits: SharedLimits): void {
    if (limits.all === this.#limits.all && limits.namespace === this.#limits.namespace) return;
    this.#limits = limits;
    this.#isDecided = false;
    this.#over = new Set([...this.#sums].flatMap(([name, sum]) => (sum > limits.namespace ? [name] : [])));
  }

  #divide(): Shortfalls {
    const { all, namespace: namespaceLimit } = this.#limits;
    this.#order ??= [...this.#claims.values()].sort((a, b) => compareAge(a.service, b.service));
    const shortfalls = new Map<ServiceName, Shortfall>();
    const leftIn = new Map(Array.from(this.#over, (name) => [name, namespaceLimit]));
    const [chargedOnce, chargedIn] = [new Set<string>(), new Set<string>()];
    let left = all;
    for (const { service, amount, shared } of this.#order) {
      const namespace = leftIn.size === 0 ? undefined : namespaceOf(service.name);
      const leftInNamespace = namespace === undefined ? undefined : leftIn.get(namespace);
      const wantedInNamespace = chargedIn.has(`${namespace} ${shared}`) ? 0 : amount;
      if (leftInNamespace !== undefined && wantedInNamespace > leftInNamespace) {
        const short = { budget: namespaceLimit, left: leftInNamespace, wanted: wantedInNamespace };
        shortfalls.set(service.name, { of: "namespace", ...short });
        continue;
      }
      const wanted = shared !== undefined && chargedOnce.has(shared) ? 0 : amount;
      if (wanted > left) {
        shortfalls.set(service.name, { of: "all", budget: all, left, wanted });
        continue;
      }
      left -= wanted;
      if (shared !== undefined) chargedOnce.add(shared);
      if (namespace === undefined || leftInNamespace === undefined) continue;
      leftIn.set(namespace, leftInNamespace - wantedInNamespace);
      if (shared !== undefined) chargedIn.add(`${namespace} ${shared}`);
    }
    return shortfalls;
  }
}

/** Replaces an earlier claim of the same Service. @param order oldest first */
function reorder<C extends Claim>(order: C[], before: C | undefined, after: C | undefined): void {
  if (before !== undefined && after !== undefined && before.service.createdAt === after.service.createdAt) {
    order[placeOf(order, after)] = after;
    return;
  }
  if (before !== undefined) order.splice(placeOf(order, before), 1);
  if (after !== undefined) order.splice(placeOf(order, after), 0, after);
}

/** The index of the first claim that is not older than a given one. */
function placeOf(order: readonly Claim[], { service }: Claim): number {
  return lowerBound(order, (other) => compareAge(other.service, service) < 0);
}

function areSame(a: Shortfalls, b: Shortfalls): boolean {
  if (a.size !== b.size) return false;
  for (const [name, { of, left, wanted, budget }] of a) {
    const other = b.get(name);
    if (other?.of !== of || other.left !== left || other.wanted !== wanted || other.budget !== budget)
      return false;
  }
  return true;
}
