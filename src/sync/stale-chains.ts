import { FAMILIES, type Family } from "../base/family.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { nonEmpty, onlyElements, type TableDelta } from "../nft/delta.ts";
import { objectIn } from "../nft/table-objects.ts";

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
   * The deletions, without duplicates and without objects that are in use again.
   * @param desired the desired tables
   */
  unusedIn(desired: Ruleset): readonly TableDelta[] {
    return Object.values(desired).flatMap((table) => {
      const { family, name } = table;
      const own = this.#deletions
        .filter((delta) => delta.family === family)
        .flatMap(({ objects }) => objects);
      const unused = own.filter((change) => objectIn(table, change) === undefined);
      const objects = [
        ...new Map(unused.map((change) => [`${change.kind} ${change.name}`, change])).values(),
      ];
      return nonEmpty({ ...onlyElements({ family, table: name }, []), objects });
    });
  }
}
