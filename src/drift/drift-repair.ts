import type { Clock, Timer } from "../base/clock.ts";
import { FAMILIES } from "../base/family.ts";
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

/** A change of our tables by another program. */
export type Drift =
  /** Missing tables, as `ip nft-proxy`, and who deleted them if the kernel reported it. */
  | { readonly kind: "tables"; readonly missing: readonly string[]; readonly author?: string }
  /** Differences that foreign commits made; undefined if they are unknown. */
  | { readonly kind: "commit"; readonly found: readonly TableDelta[] | undefined; readonly author: string }
  /** Differences found by comparing everything. */
  | { readonly kind: "differences"; readonly found: readonly TableDelta[] }
  /** Tables that could be parsed before contain something unknown now, with the reason. */
  | { readonly kind: "unreadable"; readonly reason: string };

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
    if (missing.length > 0) this.drifted({ kind: "tables", missing, author });
    const rest = messages.filter(({ family, table }) => !missing.includes(`${family} ${table}`));
    if (rest.length === 0) return;
    this.#commits.add({ ...commit, messages: rest });
    if (!isForeign || this.#isExamining) return;
    this.#isExamining = true;
    while (this.#commits.isAny) await this.#examine();
    this.#isExamining = false;
  }

  /** Repairs immediately, or after a pause if earlier repairs took much of the time. */
  drifted(drift: Drift): void {
    if (this.#waiting !== undefined) return;
    const { clock } = this.#parts;
    const pause = this.#pauseBefore(drift);
    this.#log(drift, pause);
    if (pause === 0) {
      this.#repair(drift);
      return;
    }
    this.#waiting = clock.after(pause, () => {
      this.#waiting = undefined;
      void this.fullResync("drift");
    });
  }

  #repair(drift: Drift): void {
    const { loop } = this.#parts;
    const found = differencesOf(drift);
    if (found === undefined) loop.requestFullSync("drift");
    else
      loop.requestRepair(
        found,
        drift.kind === "differences" ? { comparisonReason: "drift" } : authorOf(drift),
      );
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
    if (found === undefined || found.length > 0) this.drifted({ kind: "commit", found, author });
  }

  /** Time to wait before a repair, milliseconds. */
  #pauseBefore({ kind }: Drift): number {
    const left = this.#pausesEndAt - CREDIT - this.#parts.clock.monotonic();
    return Math.max(0, Math.min(kind === "tables" ? LONGEST_WITHOUT_TABLES : LONGEST_PAUSE, left));
  }

  #log(drift: Drift, pause: number): void {
    const hint = "another program keeps changing our rules: delaying repairs";
    const delay = pause === 0 ? {} : { hint, delaySeconds: pause / 1000 };
    const [fields, message] = logLineOf(drift);
    this.#logger.warn({ ...fields, ...delay }, message);
  }
}

/** The differences to repair; undefined if they are unknown. */
function differencesOf(drift: Drift): readonly TableDelta[] | undefined {
  switch (drift.kind) {
    case "tables":
      return drift.missing.flatMap(missingTable);
    case "commit":
    case "differences":
      return drift.found;
    case "unreadable":
      return undefined;
  }
}

/** The fields and the message of the log line. */
function logLineOf(drift: Drift): readonly [fields: LogFields, message: string] {
  switch (drift.kind) {
    case "tables":
      return [{ tables: drift.missing, by: drift.author }, "tables missing: rebuilding"];
    case "commit":
      return [{ by: drift.author }, "another program changed the rules: repairing"];
    case "differences":
      return [{ found: driftText(drift.found) }, "rules differ from the desired state: repairing"];
    case "unreadable":
      return [{ error: drift.reason }, "our tables cannot be parsed: rebuilding"];
  }
}

function deletedTable({ kind, op, family, table }: TableMessage): string[] {
  return kind === "table" && op === "delete" ? [`${family} ${table}`] : [];
}

/** A missing table without its contents, which are rendered when it is created. */
function missingTable(text: string): TableDelta[] {
  const family = FAMILIES.find((one) => text === `${one} ${TABLE_NAME}`);
  return family === undefined ? [] : [{ ...onlyElements({ family, table: TABLE_NAME }, []), mode: "create" }];
}

/** The program that made a change, without its process id, so that Events of several nodes are equal. */
function authorOf(drift: Drift): RepairOptions {
  const author = "author" in drift ? drift.author : undefined;
  return { author: author?.replace(/ \(process \d+\)$/, "") };
}
