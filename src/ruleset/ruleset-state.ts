import { FAMILIES, type Family } from "../base/family.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import { splitParts } from "../nft/elements.ts";
import { type Conflict, FamilyState } from "./family-state.ts";
import { parseFrontendKey } from "./keys.ts";
import type { ConflictChanges } from "./lost-frontends.ts";
import type { NodeContext } from "./node-context.ts";
import { SOURCE_RANGES } from "./sets.ts";
import { SharedBudgets } from "./shared-budgets.ts";

/** The ruleset of both families. */
export class RulesetState {
  readonly families: Readonly<Partial<Record<Family, FamilyState>>>;
  /** Decides which Services are served, and with which features. */
  readonly budgets: SharedBudgets;

  /**
   * @param nodeContext one entry for each programmed family
   * @param idsOf the state whose list ids to start with; none if absent
   */
  constructor(nodeContext: NodeContext, idsOf?: RulesetState) {
    this.budgets = new SharedBudgets(nodeContext);
    this.families = Object.fromEntries(
      nodeContext.map((context) => [
        context.family,
        new FamilyState(context, idsOf?.families[context.family]?.ids.copy()),
      ]),
    );
  }

  /** The desired ruleset; live: it changes with the state. */
  get ruleset(): Ruleset {
    return Object.fromEntries(this.#states().map(({ table }) => [table.family, table]));
  }

  /** Does {@link FamilyState.divideIntervals} for both families. @returns whether any interval changed */
  divideIntervals(): boolean {
    return this.#states().filter((state) => state.divideIntervals()).length > 0;
  }

  /** A copy of the ruleset as last committed. */
  committedRuleset(): Ruleset {
    return Object.fromEntries(this.#states().map((state) => [state.table.family, state.committedTable()]));
  }

  /** The changes that are not in the kernel yet. */
  pending(): TableDelta[] {
    return this.#states().flatMap((state) => state.pending() ?? []);
  }

  /** As {@link FamilyState.work}, of both families. */
  get work(): number {
    return this.#states().reduce((sum, state) => sum + state.work, 0);
  }

  /** As {@link FamilyState.hasStale}, of both families. */
  get hasStale(): boolean {
    return this.#states().some((state) => state.hasStale);
  }

  /** As {@link FamilyState.areIntervalsVirtual}, of either family. */
  get areIntervalsVirtual(): boolean {
    return this.#states().some((state) => state.areIntervalsVirtual);
  }

  /** Does {@link FamilyState.deleteStale} for both families. */
  deleteStale(least?: number): void {
    for (const state of this.#states()) state.deleteStale(least);
  }

  /** Deletes all of them: the kernel may refuse them. */
  deleteAllStale(): void {
    while (this.hasStale) this.deleteStale();
  }

  /** Records that the kernel has the whole ruleset. */
  markCommitted(): void {
    for (const state of this.#states()) state.markCommitted();
  }

  /**
   * The frontends that several service ports want.
   * @param most maximum number for each family; all if absent
   */
  conflicts(most?: number): Conflict[] {
    return this.#states().flatMap((state) => state.conflicts(most));
  }

  /** Increases whenever a NodePort changes its owner or rules. */
  get nodePortsRevision(): number {
    return this.#states().reduce((sum, { nodePortsRevision }) => sum + nodePortsRevision, 0);
  }

  /** Number of frontends that service ports want but others have. */
  get lostFrontends(): number {
    return this.#states().reduce((sum, { lost }) => sum + lost.count, 0);
  }

  /** The Services that lack a frontend that another one has. */
  losingServices(): ReadonlySet<ServiceName> {
    return new Set(this.#states().flatMap(({ lost }) => [...lost.services]));
  }

  /** The changes of conflicts since the last call. */
  takeConflictChanges(): ConflictChanges {
    const changes = this.#states().map((state) => state.takeConflictChanges());
    return {
      count: this.lostFrontends,
      begun: changes.flatMap(({ begun }) => begun),
      ended: changes.flatMap(({ ended }) => ended),
    };
  }

  #states(): FamilyState[] {
    return FAMILIES.flatMap((family) => this.families[family] ?? []);
  }
}

/** Finds the service ports that own the elements and chains of one family. */
export interface ElementOwners {
  /** The owners of an element: one, several of a shared one, none of the node's own. */
  ofElement(set: string, key: string): readonly ServicePort[];
  /** The service ports that want a part of a feature (chain or object); none for other names. */
  ofPart(name: string): readonly ServicePort[];
}

/** The owners of all elements and chains of a state. Reads the rules of all service ports once. */
export function elementOwners(state: FamilyState): ElementOwners {
  const shared = new Map<string, ServicePort[]>();
  const parts = new Map<string, ServicePort[]>();
  const addressSets = new Set(state.features.flatMap(({ addressSets: sets = [] }) => sets));
  const addresses = new Map<string, ServicePort[]>();
  const ranges = new Map<string, ServicePort[]>();
  for (const { port, frontends, lists, shared: elements } of state.allServicePortRules()) {
    for (const { chain } of lists.parts ?? []) addOwner(parts, chain.name, port);
    for (const { set, key } of elements) addOwner(shared, `${set} ${key}`, port);
    for (const rules of frontends) {
      const { address = "" } = parseFrontendKey(rules.key);
      if (addressSets.size > 0) addOwner(addresses, address, port);
      if (rules.guard !== undefined) addOwner(ranges, state.sourceRangeListOf(rules) ?? "", port);
    }
  }
  return {
    ofElement: (set, key) => {
      if (set === SOURCE_RANGES) return ranges.get(splitParts(key)[1] ?? "") ?? [];
      if (addressSets.has(set)) return addresses.get(splitParts(key)[0] ?? "") ?? [];
      const owner = state.ownerOfElement(key);
      return owner === undefined ? (shared.get(`${set} ${key}`) ?? parts.get(set) ?? []) : [owner];
    },
    ofPart: (name) => parts.get(name) ?? [],
  };
}

function addOwner(owners: Map<string, ServicePort[]>, key: string, port: ServicePort): void {
  const known = owners.get(key);
  if (known === undefined) owners.set(key, [port]);
  else if (!known.includes(port)) known.push(port);
}
