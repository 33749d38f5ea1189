import { firstOf } from "../base/signals.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import { type ComparisonScope, compareKernel, type KernelComparison } from "../kernel/read-kernel.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { type TableDelta, unexplained } from "../nft/delta.ts";
import type { Reconciler } from "../sync/reconciler.ts";
import type { SyncReport } from "../sync/sync-report.ts";

/** Parts of a {@link KernelComparer}. */
export interface KernelComparerParts {
  readonly tables: TableReader;
  readonly reconciler: Pick<Reconciler, "state" | "unsent">;
}

/** The result of a comparison, without differences that our syncs explain. */
export interface Compared {
  readonly comparison: KernelComparison;
  /** Whether a sync failed or a full sync ran meanwhile, so that the result may be wrong. */
  readonly inDoubt: boolean;
}

/** Maximum number of attempts of a comparison while syncs leave its result in doubt. */
export const TRIES = 3;

/** A running comparison. */
interface Comparing {
  /** The changes that our syncs made or had to send meanwhile. */
  readonly own: Set<TableDelta>;
  inDoubt: boolean;
  readonly stop: AbortController;
}

/**
 * Compares our tables with the desired ones while syncs continue. It ignores everything that syncs change
 * meanwhile.
 */
export class KernelComparer {
  readonly #parts: KernelComparerParts;
  readonly #underWay = new Set<Comparing>();
  #isStopped = false;

  constructor(parts: KernelComparerParts) {
    this.#parts = parts;
  }

  /** Must be called after each successful sync. */
  synced({ kind, deltas }: Pick<SyncReport, "kind" | "deltas">): void {
    for (const comparing of this.#underWay) {
      for (const own of [...deltas, ...this.#parts.reconciler.unsent]) comparing.own.add(own);
      comparing.inDoubt ||= kind === "full";
    }
  }

  /** Must be called after each failed sync. */
  failed(): void {
    for (const comparing of this.#underWay) comparing.inDoubt = true;
  }

  /** Ends running comparisons and starts no more: they report unreadable tables. */
  stop(): void {
    this.#isStopped = true;
    for (const { stop } of this.#underWay) stop.abort(new NftStoppedError());
  }

  /**
   * Compares until a sync does not leave the result in doubt.
   * @returns undefined if our tables cannot be read or are not understood, or if syncs left the result in
   * doubt three times
   */
  async recheck(scope: ComparisonScope): Promise<readonly TableDelta[] | undefined> {
    for (let tries = 0; tries < TRIES; tries++) {
      const { comparison, inDoubt } = await this.compare(scope);
      if (comparison.kind === "unreadable") return undefined;
      if (!inDoubt) return comparison.differences;
    }
    return undefined;
  }

  /**
   * The differences that none of our syncs explains.
   * @param signal ends the comparison
   */
  async compare(scope: ComparisonScope, signal?: AbortSignal): Promise<Compared> {
    const { reconciler, tables } = this.#parts;
    const stop = new AbortController();
    const comparing: Comparing = { own: new Set(reconciler.unsent), inDoubt: false, stop };
    this.#underWay.add(comparing);
    if (this.#isStopped) stop.abort(new NftStoppedError());
    const found = await compareKernel(tables, reconciler.state.ruleset, firstOf(stop.signal, signal), scope);
    this.#underWay.delete(comparing);
    const { own, inDoubt } = comparing;
    if (found.kind === "unreadable") return { comparison: found, inDoubt };
    const differences = unexplained(found.differences, [...own, ...reconciler.unsent]);
    return { comparison: { kind: "compared", differences }, inDoubt };
  }
}
