import { FAMILIES, type Family } from "../base/family.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import { type Conflict, FamilyState } from "./family-state.ts";
import type { NodeContext } from "./node-context.ts";
import { frontendMapOf, frontendOfElement } from "./sets.ts";

/** The ruleset of both families. */
export class RulesetState {
  readonly families: Readonly<Partial<Record<Family, FamilyState>>>;

  /** @param nodeContext one for each family that is to be programmed */
  constructor(nodeContext: NodeContext) {
    this.families = Object.fromEntries(nodeContext.map((context) => [context.family, new FamilyState(context)]));
  }

  /** The desired ruleset; live: it changes with the state. */
  get ruleset(): Ruleset {
    return Object.fromEntries(this.#states().map(({ table }) => [table.family, table]));
  }

  /**
   * Gives endpoints the indexes that they have in the kernel, in the lists that differ: a list may have its endpoints in
   * any order.
   * @param deltas the differences between the kernel's tables and these
   * @returns whether lists differed, so that the differences are to be computed again
   */
  adoptPlacement(kernel: Ruleset, deltas: readonly TableDelta[]): boolean {
    const changed = deltas.filter((delta) => {
      const actual = kernel[delta.family];
      const frontends = new Set(delta.mode === "change" ? indexedFrontends(delta) : []);
      if (actual !== undefined) this.families[delta.family]?.adoptPlacement(actual, frontends);
      return frontends.size > 0;
    });
    return changed.length > 0;
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

/** The frontends of which a delta has elements of lists. */
function indexedFrontends({ elements }: TableDelta): string[] {
  return elements.flatMap(({ spec: { name }, deleted, added }) => {
    const role = frontendMapOf(name)?.role;
    if (role !== "endpoints" && role !== "affinityIds") return [];
    return [...deleted, ...added.map(({ key }) => key)].map((key) => frontendOfElement(name, key));
  });
}
