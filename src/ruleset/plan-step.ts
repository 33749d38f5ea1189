import type { Transaction } from "../nft/ast/json.ts";
import type { TableDelta } from "../nft/delta.ts";

/**
 * The possible steps of a plan, in order. docs/dev/design.md ("The order of commands") has the reason and the
 * test of each.
 */
export const STEP_NAMES = [
  "new tables",
  "elements of new tables",
  "base chains of new tables",
  "new sets and chains",
  "elements of new sets",
  "changed chains",
  "leftover second maps",
  "second maps",
  "everything at once",
  "declarations",
  "room in limited sets",
  "new elements",
  "new entries",
  "other values",
  "intervals",
  "values kept for intervals",
  "removed entries",
  "removed elements",
  "chains without removed sets",
  "removed chains",
  "removed source ranges",
  "removed handover chains",
  "removed second maps",
] as const;

/**
 * A part of a plan. The kernel has all of it before the next step is sent, and packets never see an
 * incomplete state between two steps.
 */
export interface Step {
  readonly name: (typeof STEP_NAMES)[number];
  readonly deltas: readonly TableDelta[];
  /**
   * Set if the step changes only elements and may be split into several transactions: sent one after another,
   * or in parallel.
   */
  readonly divided?: "in order" | "in any order";
  /** Sent if this step fails: the steps before it are useless without it. */
  readonly undo?: Transaction;
  /** Sent instead of this step if the kernel answers that it is busy. */
  readonly ifBusy?: readonly Step[];
}
