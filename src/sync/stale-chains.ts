import type { Ruleset } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";

/** The chains in the kernel that nothing leads to any more, and the sets that they looked into, still to be deleted. */
export class StaleChains {
  #deletions: TableDelta[] = [];

  /** The deletions that are due, as deltas that do nothing else. */
  get deletions(): readonly TableDelta[] {
    return this.#deletions;
  }

  /** Adds deletions. */
  add(deletions: readonly TableDelta[]): void {
    this.#deletions.push(...deletions);
  }

  /** Forgets all of them: the kernel has no stale chains. */
  clear(): void {
    this.#deletions = [];
  }

  /**
   * Takes the deletions out, with each chain and set once, and none that is in use again.
   * @param desired the tables as they should be
   */
  take(desired: Ruleset): TableDelta[] {
    const taken = this.#deletions;
    this.clear();
    return Object.values(desired).flatMap((table) => {
      const own = taken.filter(({ family }) => family === table.family);
      const names = new Set(
        own.flatMap(({ deletedChains }) => deletedChains).filter((name) => !table.chains.has(name)),
      );
      const sets = new Map(
        own
          .flatMap(({ deletedSets }) => deletedSets)
          .flatMap((spec) => (table.sets.has(spec.name) ? [] : [[spec.name, spec]])),
      );
      if (own[0] === undefined || names.size + sets.size === 0) return [];
      return [{ ...own[0], deletedChains: [...names], deletedSets: [...sets.values()] }];
    });
  }
}
