import type { Clock } from "../base/clock.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import type { Nft } from "../kernel/nft.ts";
import { compareKernel, type KernelComparison } from "../kernel/read-kernel.ts";
import { isEmptyDelta, type TableDelta, unexplained } from "../nft/delta.ts";
import { PeriodicTask } from "./periodic-task.ts";
import type { Reconciler } from "./reconciler.ts";
import type { SyncReport, SyncSubscriber } from "./sync-report.ts";

/** Parts of a {@link Verifier}. */
export interface VerifierParts {
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly reconciler: Pick<Reconciler, "state">;
  /** The longest time between two verifications, milliseconds. */
  readonly maxPeriodMs: () => number;
  /** Called after a comparison that found no difference, with its end in milliseconds since 1970. */
  readonly onVerified: (at: number) => void;
}

/** What a {@link Verifier} reports. */
export interface VerifierReports {
  /** Takes differences that no sync of ours explains. */
  readonly onDifferences: (found: readonly TableDelta[]) => void;
  /** Told why tables that were understood before are not any more. */
  readonly onUnreadable: (reason: string) => void;
}

/** The shortest time between two verifications, milliseconds. */
const MIN_PERIOD = 10_000;

/** A verification may take up to a hundredth of the time. */
const PERIOD_IN_COSTS = 100;

/**
 * The time without a change before a verification, milliseconds. A change of the ruleset makes nft begin the listing of a
 * map anew: 110,000 elements take it 0.3 s, and while changes came ten times a second it listed without end, a processor
 * busy (nft 1.1.3).
 */
const QUIET = 500;

/**
 * Compares our tables in the kernel with the desired state element by element, as often as is cheap: every 10 s or
 * every 100 times the length of the last comparison, whichever is longer, once there was no change for half a second
 * and 10 s after a full sync, which compares as well. Syncs go on meanwhile: what they change during a comparison is no
 * difference.
 */
export class Verifier implements SyncSubscriber {
  readonly #parts: VerifierParts;
  #task: PeriodicTask | undefined;
  #stopped = false;
  #reports: VerifierReports = { onDifferences: () => {}, onUnreadable: () => {} };
  /** When a sync last sent something, on the monotonic clock. */
  #changedAt = Number.NEGATIVE_INFINITY;
  /** When a full sync last compared, on the monotonic clock. */
  #fullSyncAt = Number.NEGATIVE_INFINITY;
  /** How long the last turn found that it had to wait, milliseconds; 0 or less when it compared. */
  #waitFor = 0;
  /** Changes that syncs made during the current comparison; undefined between two, so that no delta is kept. */
  #changed: TableDelta[] | undefined;
  /** A sync during the current comparison leaves its result in doubt. */
  #inDoubt = false;
  readonly #failures: FailureLog;
  /** Whether the tables were understood when they were last compared. */
  #isUnderstood = false;

  constructor(parts: VerifierParts) {
    this.#parts = parts;
    const { logger, clock } = parts;
    this.#failures = new FailureLog(
      logger,
      clock,
      "cannot read our tables to verify them, retrying",
      "our tables can be read and verified again",
    );
  }

  /** Begins to verify. */
  start(reports: VerifierReports): void {
    this.#reports = reports;
    this.#task = new PeriodicTask(
      this.#parts.clock,
      (took) => this.#pause(took),
      () => this.#verify(),
    );
  }

  /** Stops verifying. Nothing is reported after this. */
  stop(): void {
    this.#stopped = true;
    this.#task?.stop();
  }

  synced({ kind, endedAt, deltas }: Pick<SyncReport, "kind" | "endedAt" | "deltas">): void {
    this.#changed?.push(...deltas);
    if (deltas.length > 0) this.#changedAt = this.#parts.clock.monotonic();
    if (kind !== "full") return;
    this.#fullSyncAt = this.#parts.clock.monotonic();
    this.#inDoubt = true;
    this.#parts.onVerified(endedAt);
  }

  failed(): void {
    this.#inDoubt = true;
  }

  #pause(took: number): number {
    if (this.#waitFor > 0) return this.#waitFor;
    return Math.min(this.#parts.maxPeriodMs(), Math.max(MIN_PERIOD, PERIOD_IN_COSTS * took));
  }

  async #verify(): Promise<void> {
    const { nft, clock, reconciler } = this.#parts;
    this.#waitFor = Math.max(this.#changedAt + QUIET, this.#fullSyncAt + MIN_PERIOD) - clock.monotonic();
    if (this.#waitFor > 0) return;
    this.#changed = [];
    this.#inDoubt = false;
    const kernel = await compareKernel(nft, reconciler.state.ruleset);
    const changed = this.#changed;
    this.#changed = undefined;
    if (this.#stopped) return;
    if (kernel.kind === "unreadable") return this.#unreadable(kernel);
    this.#failures.end();
    this.#isUnderstood = true;
    if (!this.#inDoubt) this.#judge(kernel.differences, changed);
  }

  /** Reports once what is not understood: a rebuild that does not mend it would be repeated without end. */
  #unreadable({ reason, hint, isNftAtFault }: Extract<KernelComparison, { kind: "unreadable" }>): void {
    if (this.#isUnderstood && !isNftAtFault && !this.#inDoubt) {
      this.#isUnderstood = false;
      this.#reports.onUnreadable(reason);
      return;
    }
    this.#failures.add(reason, hint === undefined ? {} : { hint });
  }

  #judge(differences: readonly TableDelta[], changed: readonly TableDelta[]): void {
    const own = [...changed, ...this.#parts.reconciler.state.pending()];
    const found = unexplained(differences, own)
      // Stale chains and their sets stay in the kernel for a while, and those of others disturb nothing.
      .map((delta) => ({ ...delta, deletedChains: [], deletedSets: [] }))
      .filter((delta) => delta.mode !== "change" || !isEmptyDelta(delta));
    if (found.length > 0) this.#reports.onDifferences(found);
    else this.#parts.onVerified(this.#parts.clock.now());
  }
}
