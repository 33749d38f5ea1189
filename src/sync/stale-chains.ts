import { FAMILIES, type Family } from "../base/family.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";

/**
 * The chains in the kernel that nothing leads to any more, and the sets and timeouts that they used, still to
 * be deleted.
 */
export class StaleChains {
  #deletions: readonly TableDelta[] = [];

  /** The deletions that are due, as deltas that only delete. */
  get deletions(): readonly TableDelta[] {
    return this.#deletions;
  }

  add(deletions: readonly TableDelta[]): void {
    this.#deletions = [...this.#deletions, ...deletions];
  }

  /** Drops all of them, or those of some families: the kernel has no stale chains there. */
  clear(families: ReadonlySet<Family> = new Set(FAMILIES)): void {
    this.#deletions = this.#deletions.filter(({ family }) => !families.has(family));
  }

  /**
   * The deletions, without duplicates and without chains, sets and objects that are in use again.
   * @param desired the desired tables
   */
  unusedIn(desired: Ruleset): readonly TableDelta[] {
    return Object.values(desired).flatMap((table) => {
      const own = this.#deletions.filter(({ family }) => family === table.family);
      const chains = new Set(own.flatMap(({ deletedChains }) => deletedChains));
      const sets = new Map(
        own.flatMap(({ deletedSets }) => deletedSets.map((spec) => [spec.name, spec] as const)),
      );
      const timeouts = new Set(own.flatMap(({ deletedTimeouts = [] }) => deletedTimeouts));
      for (const name of table.chains.keys()) chains.delete(name);
      for (const name of table.sets.keys()) sets.delete(name);
      for (const name of table.timeouts?.keys() ?? []) timeouts.delete(name);
      if (own[0] === undefined || chains.size + sets.size + timeouts.size === 0) return [];
      const deletedSets = [...sets.values()];
      return [{ ...own[0], deletedChains: [...chains], deletedSets, deletedTimeouts: [...timeouts] }];
    });
  }
}
