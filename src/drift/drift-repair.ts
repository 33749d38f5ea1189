import type { Clock, Timer } from "../base/clock.ts";
import type { LogFields, Logger } from "../base/logger.ts";
import { NamespaceLoggers } from "../base/namespace-loggers.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { onlyElements, type TableDelta, unexplained } from "../nft/delta.ts";
import type { Reconciler } from "../sync/reconciler.ts";
import type { RepairOptions } from "../sync/repairs.ts";
import type { SyncLoop } from "../sync/sync-loop.ts";
import { driftText, type FullSyncReason, type SyncReport, type SyncSubscriber } from "../sync/sync-report.ts";
import { ForeignCommits } from "./foreign-commits.ts";
import type { Commit, TableMessage } from "./kernel-events.ts";
import type { Verifier } from "./verifier.ts";

/** Parts of a {@link DriftRepair}. */
export interface DriftRepairParts {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly loop: Pick<SyncLoop, "idle" | "requestFullSync" | "requestRepair">;
  readonly verifier: Pick<Verifier, "recheck">;
  readonly reconciler: Pick<Reconciler, "state">;
}

/**
 * Pause after a repair, in durations of the repair: if two programs undo each other's rules, repairs take at
 * most a tenth of the time.
 */
const PAUSE_FACTOR = 9;

/** Pauses are made once they add up to more than this. Milliseconds. */
const CREDIT = 2000;

/** Maximum pause before a repair, milliseconds. */
const LONGEST_PAUSE = 30_000;

/** The same while tables are missing: no Service is served until they are back. */
const LONGEST_WITHOUT_TABLES = 1000;

/**
 * Repairs changes by other programs: known differences in one small transaction, and missing tables as a
 * whole, without reading the kernel. If the differences are unknown, it compares our tables first, while
 * syncs go on. Only if that fails, a full sync compares, and changes wait for it.
 */
export class DriftRepair implements SyncSubscriber {
  readonly #parts: DriftRepairParts;
  readonly #logger: Logger;
  /** When the pauses after earlier repairs end, if all were made. On the monotonic clock. */
  #pausesEndAt = Number.NEGATIVE_INFINITY;
  /** A delayed repair, which will compare everything. */
  #waiting: Timer | undefined;
  readonly #commits = new ForeignCommits();
  #isExamining = false;

  constructor(parts: DriftRepairParts) {
    this.#parts = parts;
    this.#logger = new NamespaceLoggers(parts.clock, parts.logger).of("");
  }

  synced({ repaired, durationMs }: Pick<SyncReport, "repaired" | "durationMs">): void {
    if (repaired === undefined) return;
    const now = this.#parts.clock.monotonic();
    this.#pausesEndAt = Math.max(this.#pausesEndAt, now) + PAUSE_FACTOR * durationMs;
  }

  /** Cancels a delayed repair. */
  stop(): void {
    this.#waiting?.cancel();
  }

  /**
   * A full resync: compares everything and repairs differences, unless a delayed repair will do so.
   * @param reason the reason in the report of the sync
   */
  async fullResync(reason: FullSyncReason): Promise<void> {
    const { clock, verifier, loop } = this.#parts;
    if (this.#waiting !== undefined) return;
    const startedAt = clock.monotonic();
    const found = await verifier.recheck("everything");
    if (found === undefined) loop.requestFullSync(reason);
    else loop.requestRepair(found, { comparisonReason: reason, comparisonMs: clock.monotonic() - startedAt });
  }

  /** See {@link ForeignCommits.needsElementsOfOwnCommits}. */
  get needsElementsOfOwnCommits(): boolean {
    return this.#commits.needsElementsOfOwnCommits;
  }

  /**
   * Repairs the changes of a foreign commit. Must also be called for our own commits: they may have undone
   * the changes.
   */
  async committed(commit: Commit): Promise<void> {
    const { isForeign, messages, author } = commit;
    const missing = isForeign ? messages.flatMap(deletedTable) : [];
    if (missing.length > 0) {
      const fields = { tables: missing.map(({ family, table }) => `${family} ${table}`), by: author };
      const repair = () => this.#parts.loop.requestRepair(missing, byAuthor(author));
      this.#drifted("tables missing: rebuilding", fields, repair, LONGEST_WITHOUT_TABLES);
    }
    const rest = messages.filter(({ family }) => missing.every((table) => table.family !== family));
    if (rest.length === 0) return;
    this.#commits.add({ ...commit, messages: rest });
    if (!isForeign || this.#isExamining) return;
    this.#isExamining = true;
    while (this.#commits.isAny) await this.#examine();
    this.#isExamining = false;
  }

  /** Repairs differences that a comparison found. */
  foundDifferences(found: readonly TableDelta[]): void {
    const repair = () => this.#parts.loop.requestRepair(found, { comparisonReason: "drift" });
    this.#drifted("rules differ from the desired state: repairing", { found: driftText(found) }, repair);
  }

  /** Rebuilds tables that could be parsed before and contain something unknown now. */
  foundUnreadable(reason: string): void {
    const repair = () => this.#parts.loop.requestFullSync("drift");
    this.#drifted("our tables cannot be parsed: rebuilding", { error: reason }, repair);
  }

  /**
   * Repairs immediately; if earlier repairs took much of the time, compares and repairs everything after a
   * pause.
   * @param longestPause milliseconds
   */
  #drifted(message: string, fields: LogFields, repair: () => void, longestPause = LONGEST_PAUSE): void {
    if (this.#waiting !== undefined) return;
    const { clock } = this.#parts;
    const left = this.#pausesEndAt - CREDIT - clock.monotonic();
    const pause = Math.max(0, Math.min(longestPause, left));
    const hint = "another program keeps changing our rules: delaying repairs";
    const delay = pause === 0 ? {} : { hint, delaySeconds: pause / 1000 };
    this.#logger.warn({ ...fields, ...delay }, message);
    if (pause === 0) repair();
    else {
      this.#waiting = clock.after(pause, () => {
        this.#waiting = undefined;
        void this.fullResync("drift");
      });
    }
  }

  /** Examines foreign commits and repairs what still differs. */
  async #examine(): Promise<void> {
    const { verifier, reconciler, loop } = this.#parts;
    // A delayed repair compares everything.
    if (this.#waiting !== undefined) return this.#commits.clear();
    // A running sync would explain all differences in the elements that it writes, even if the foreign commit
    // came after its own commits.
    await loop.idle();
    const declarations = this.#commits.takeDeclarations() ? await verifier.recheck("declarations") : [];
    await loop.idle();
    const { deltas, author } = this.#commits.takeElements(reconciler.state.ruleset);
    const isKnown = declarations !== undefined && deltas !== undefined;
    const found = isKnown
      ? [...declarations, ...unexplained(deltas, [...declarations, ...reconciler.state.pending()])]
      : await verifier.recheck("everything");
    if (found?.length === 0) return;
    const repair = () => {
      if (found === undefined) loop.requestFullSync("drift");
      else loop.requestRepair(found, byAuthor(author));
    };
    this.#drifted("another program changed the rules: repairing", { by: author }, repair);
  }
}

/** A deleted table without its contents, which are rendered when it is created. */
function deletedTable({ kind, op, family }: TableMessage): TableDelta[] {
  if (kind !== "table" || op !== "delete" || family === undefined) return [];
  return [{ ...onlyElements({ family, table: TABLE_NAME }, []), mode: "create" }];
}

/** The program that made a change, without its process id, so that Events of several nodes are equal. */
function byAuthor(author: string): RepairOptions {
  return { author: author.replace(/ \(process \d+\)$/, "") };
}
