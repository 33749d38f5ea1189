import type { Family } from "../base/family.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { creation, type TableDelta, unexplained } from "../nft/delta.ts";
import type { FullSyncReason } from "./sync-report.ts";

/** Known facts about a repair. */
export interface RepairOptions {
  /** Why everything was compared for it, so that the sync counts as a full one; absent if it was not. */
  readonly comparisonReason?: FullSyncReason | undefined;
  /** Duration of that comparison, milliseconds. */
  readonly comparisonMs?: number | undefined;
  /** The program whose changes are repaired; absent if unknown. */
  readonly author?: string | undefined;
}

/** A repair of changes by other programs. */
export interface Repair extends RepairOptions {
  /** The families whose tables are missing. */
  readonly missingFamilies: ReadonlySet<Family>;
  /** The differences of other tables. */
  readonly deltas: readonly TableDelta[];
}

const NONE: Repair = { missingFamilies: new Set(), deltas: [] };

/** Repairs of changes by other programs: the one that is due, and the one that a sync is sending. */
export class Repairs {
  #due = NONE;
  #underWay = NONE;

  /** Whether a repair is due or under way. */
  get isAny(): boolean {
    return [this.#due, this.#underWay].some(
      ({ missingFamilies, deltas, comparisonReason }) =>
        missingFamilies.size + deltas.length > 0 || comparisonReason !== undefined,
    );
  }

  /** Adds differences to the repair that is due. Where both name the same object, the later one counts. */
  add(found: readonly TableDelta[], { comparisonReason, comparisonMs, author }: RepairOptions): void {
    const { missingFamilies, deltas, ...known } = this.#due;
    const changes = found.filter(({ mode }) => mode === "change");
    const created = found.flatMap(({ family, mode }) => (mode === "create" ? [family] : []));
    this.#due = {
      missingFamilies: new Set([...missingFamilies, ...created]),
      deltas: [...unexplained(deltas, changes), ...changes],
      comparisonReason: known.comparisonReason ?? comparisonReason,
      comparisonMs: known.comparisonMs ?? comparisonMs,
      author: author ?? known.author,
    };
  }

  /** Takes the repair that is due: it is under way until {@link Repairs.end}. */
  begin(): Repair {
    const { missingFamilies, deltas } = this.#due;
    this.#underWay = { ...this.#due, deltas: deltas.filter(({ family }) => !missingFamilies.has(family)) };
    this.#due = NONE;
    return this.#underWay;
  }

  /** The repair has ended, whether or not it succeeded. */
  end(): void {
    this.#underWay = NONE;
  }

  /** The changes of the repairs in the kernel. @param desired the desired tables */
  changes(desired: Ruleset): readonly TableDelta[] {
    return [this.#due, this.#underWay].flatMap(({ missingFamilies, deltas }) => [
      ...creations(missingFamilies, desired),
      ...deltas,
    ]);
  }
}

/** Deltas that create missing tables. @param desired the desired tables */
export function creations(missingFamilies: ReadonlySet<Family>, desired: Ruleset): readonly TableDelta[] {
  return Object.values(desired).flatMap((table) =>
    missingFamilies.has(table.family) ? [creation(table, "create")] : [],
  );
}
