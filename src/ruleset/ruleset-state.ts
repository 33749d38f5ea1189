import { FAMILIES, type Family } from "../base/family.ts";
import type { ServicePortKey } from "../model/ids.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { diffRuleset, type TableDelta } from "../nft/delta.ts";
import { type Conflict, FamilyState } from "./family-state.ts";
import type { NodeContext } from "./node-context.ts";
import { AFFINITY_IDS, ENDPOINTS } from "./sets.ts";

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

  /** The kernel has everything now. */
  committed(): void {
    for (const state of this.#states()) state.committed();
  }

  /** The frontends that several service ports want. */
  conflicts(): Conflict[] {
    return this.#states().flatMap((state) => state.conflicts());
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
