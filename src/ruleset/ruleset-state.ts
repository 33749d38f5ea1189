import { FAMILIES, type Family } from "../base/family.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { diffRuleset, type TableDelta } from "../nft/delta.ts";
import { type Conflict, FamilyState } from "./family-state.ts";
import type { ConflictChanges } from "./lost-frontends.ts";
import type { NodeContext } from "./node-context.ts";
import { AFFINITY_IDS, ENDPOINTS } from "./sets.ts";
import { SharedBudgets } from "./shared-budgets.ts";

/** How a state takes over what the kernel has: see {@link RulesetState.adopt}. */
interface AdoptOptions {
  /** The list ids stay: those of a state that the kernel has had before are what it should have. */
  readonly keepsIds?: boolean | undefined;
  /** The part of the ruleset that the kernel can have; all of it when absent. */
  readonly desired?: Ruleset;
}

/** The ruleset of both families. */
export class RulesetState {
  readonly families: Readonly<Partial<Record<Family, FamilyState>>>;
  /** Which Services are served, and which of them with session affinity. */
  readonly budgets = new SharedBudgets();

  /**
   * @param nodeContext one for each family that is to be programmed
   * @param idsOf a state whose list ids this one begins with; none when absent
   */
  constructor(nodeContext: NodeContext, idsOf?: RulesetState) {
    this.families = Object.fromEntries(
      nodeContext.map((context) => [
        context.family,
        new FamilyState(context, idsOf?.families[context.family]?.copyOfIds()),
      ]),
    );
  }

  /** The desired ruleset; live: it changes with the state. */
  get ruleset(): Ruleset {
    return Object.fromEntries(this.#states().map(({ table }) => [table.family, table]));
  }

  /**
   * Takes over what is free to choose from the kernel: list ids, and the numbers of endpoints in lists that differ.
   * @returns the differences that remain
   */
  adopt(kernel: Ruleset, { keepsIds, desired = this.ruleset }: AdoptOptions = {}): TableDelta[] {
    for (const state of keepsIds ? [] : this.#states()) {
      const actual = kernel[state.table.family];
      if (actual !== undefined) state.adoptIds(actual);
    }
    const deltas = diffRuleset(kernel, desired);
    const isAdopted = deltas.filter((delta) => {
      const [state, actual] = [this.families[delta.family], kernel[delta.family]];
      if (state === undefined || actual === undefined || delta.mode !== "change") return false;
      const keys = servicePortsIn(delta, state);
      state.adoptPlacement(actual, keys);
      return keys.size > 0;
    });
    return isAdopted.length > 0 ? diffRuleset(kernel, desired) : deltas;
  }

  /** The ruleset as the kernel was last told, a copy. */
  committedRuleset(): Ruleset {
    return Object.fromEntries(this.#states().map((state) => [state.table.family, state.committedTable()]));
  }

  /** The changes that the kernel does not have yet. */
  pending(): TableDelta[] {
    return this.#states().flatMap((state) => state.pending() ?? []);
  }

  /** How many elements were written since the kernel had everything. */
  get writtenElements(): number {
    return this.#states().reduce((sum, state) => sum + state.writtenElements, 0);
  }

  /** The kernel has everything now. */
  committed(): void {
    for (const state of this.#states()) state.committed();
  }

  /** The frontends that several service ports want. @param most the first so many of each family; all if absent */
  conflicts(most?: number): Conflict[] {
    return this.#states().flatMap((state) => state.conflicts(most));
  }

  /** Grows with each change of a NodePort: whose it is, or its rules. */
  get nodePortsRevision(): number {
    return this.#states().reduce((sum, { nodePortsRevision }) => sum + nodePortsRevision, 0);
  }

  /** How many frontends service ports want and others have. */
  get lostFrontends(): number {
    return this.#states().reduce((sum, { lost }) => sum + lost.count, 0);
  }

  /** The Services that lack a frontend, because another one has it. */
  losingServices(): ReadonlySet<ServiceName> {
    return new Set(this.#states().flatMap(({ lost }) => [...lost.services]));
  }

  /** What changed in conflicts since the last call. */
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

/** The service ports of whose lists a delta has elements. */
function servicePortsIn({ elements }: TableDelta, state: FamilyState): ReadonlySet<ServicePortKey> {
  const found = new Set<ServicePortKey>();
  for (const { spec, deleted, added } of elements) {
    if (spec.name !== ENDPOINTS && spec.name !== AFFINITY_IDS) continue;
    for (const key of [...deleted, ...added.map((element) => element.key)]) {
      const owner = state.ownerOfElement(spec.name, key);
      if (owner !== undefined) found.add(owner.key);
    }
  }
  return found;
}

/** Finds the service ports that elements and chains of one family belong to. */
export interface ElementOwners {
  /** The service ports that an element belongs to: one, several for what is shared, none for what is the node's own. */
  ofElement(set: string, key: string): readonly ServicePort[];
  /** The service ports that a chain or set of source ranges guards; none for every other chain and set. */
  ofPart(name: string): readonly ServicePort[];
}

/** The owners of the elements and chains that a state holds now. Costs one pass over the rules of all service ports. */
export function elementOwners(state: FamilyState): ElementOwners {
  const shared = new Map<string, ServicePort[]>();
  const parts = new Map<string, ServicePort[]>();
  for (const { port, frontends, shared: elements } of state.allServicePortRules()) {
    for (const { set, key } of elements) addOwner(shared, `${set} ${key}`, port);
    for (const { guard } of frontends) {
      if (guard === undefined) continue;
      addOwner(parts, guard.chain.name, port);
      addOwner(parts, guard.set.name, port);
    }
  }
  return {
    ofElement: (set, key) => {
      const owner = state.ownerOfElement(set, key);
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
