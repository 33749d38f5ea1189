import type { Clock } from "../base/clock.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import { firstOf } from "../base/signals.ts";
import type { TableLister } from "../kernel/nft.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import { type ComparisonScope, compareKernel, type KernelComparison } from "../kernel/read-kernel.ts";
import { type TableDelta, unexplained } from "../nft/delta.ts";
import type { KernelWatch } from "./kernel-watch.ts";
import { PeriodicTask } from "./periodic-task.ts";
import type { QuietTime } from "./quiet-time.ts";
import type { Reconciler } from "./reconciler.ts";
import type { SyncReport, SyncSubscriber } from "./sync-report.ts";

/** Parts of a {@link Verifier}. */
export interface VerifierParts {
  /** Lists our tables while no sync changes them. */
  readonly listings: TableLister;
  /** The same, for repairs: however long syncs have waited. */
  readonly urgentListings: TableLister;
  readonly quiet: Pick<QuietTime, "isSpent">;
  /** Tells whether somebody else changed our tables. */
  readonly watch: Pick<KernelWatch, "isTrusted" | "isIntactSince">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly reconciler: Pick<Reconciler, "state" | "staleDeletions">;
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

/** What a comparison found that no sync of ours explains. */
export interface Finding {
  /** When the kernel was looked at, milliseconds since 1970. */
  readonly at: number;
  readonly comparison: KernelComparison;
}

/** The shortest time between two verifications, milliseconds. */
const MIN_PERIOD = 10_000;

/** A verification may take up to a hundredth of the time. */
const PERIOD_IN_COSTS = 100;

/** And up to a thousandth, once a minute at most, where the kernel told of nobody else's change since the last one. */
const PERIOD_IN_COSTS_WATCHED = 1000;
const MIN_PERIOD_WATCHED = 60_000;

/** The longest time between two verifications while our tables change, milliseconds: then it is worth more. */
const PERIOD_OF_CHANGE = 20_000;

/** For how long a finding may answer another question where listing anew would hold up syncs too much, milliseconds. */
const RECENT = 45_000;

/**
 * How long somebody who asks waits before the last finding answers, milliseconds: one that is recent, or after which nobody
 * else changed anything, and any other.
 */
const PATIENCE = { recent: 3000, older: 5000 };

/** How often somebody who asks has a comparison made that a sync, which failed or repaired, may leave in doubt. */
const TRIES = 3;

const UNKNOWN: KernelComparison = {
  kind: "unreadable",
  reason: "syncs failed while our tables were compared",
  isNftAtFault: true,
};

/** A comparison under way, or about to begin. */
interface Look {
  readonly result: Promise<Finding | undefined>;
  readonly stop: AbortController;
  /** How many want the result. */
  wanted: number;
}

/** A comparison under way. */
interface Comparing {
  /** What syncs of ours changed meanwhile, and what they have still to delete. */
  readonly own: Set<TableDelta>;
  /** A sync leaves the result in doubt. */
  inDoubt: boolean;
}

/**
 * Compares our tables in the kernel with the desired state element by element: every 10 s or every 100 times the length
 * of the last comparison, whichever is longer, and every 20 s while they change; every minute or every 1000 times where the
 * kernel tells of each change and nobody else made one, for what was right and has only had our transactions since is right;
 * not within 10 s of a full sync, which compares as well; and for whoever asks. Syncs wait while one map is listed
 * ({@link QuietTime}); what they change during a comparison is no difference. Several that ask meanwhile share one
 * comparison, which ends when nobody wants it any more.
 */
export class Verifier implements SyncSubscriber {
  readonly #parts: VerifierParts;
  #task: PeriodicTask | undefined;
  #stopped = false;
  #reports: VerifierReports | undefined;
  /** When a sync last sent something, on the monotonic clock. */
  #changedAt = Number.NEGATIVE_INFINITY;
  /** When the last turn began, on the monotonic clock. */
  #turnAt = Number.NEGATIVE_INFINITY;
  /** When a full sync last compared, on the monotonic clock. */
  #fullSyncAt = Number.NEGATIVE_INFINITY;
  /** How long the last turn found that it had to wait, milliseconds; 0 or less when it compared. */
  #waitFor = 0;
  readonly #comparing = new Set<Comparing>();
  /** What was found last, and still holds but for what syncs have sent since. */
  #last: Finding | undefined;
  /** How long the last comparison took, milliseconds. */
  #cost = 0;
  #running: Promise<unknown> = Promise.resolve();
  #next: Look | undefined;
  readonly #failures: FailureLog;
  /** Whether the tables were understood when they were last compared. */
  #isUnderstood = false;
  /** The next comparison waits for nobody. */
  #isUrgent = false;
  /** The last comparison failed, or the kernel may have been changed unseen since: the next turn is not far. */
  #isInDoubt = false;

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

  /** Verifies now, however long syncs have waited: until now, somebody else may have changed our tables unseen. */
  watchBegan(): void {
    this.#isInDoubt = true;
    this.#isUrgent = true;
    this.#task?.periodChanged();
    void this.#look();
  }

  /** Stops verifying. Nothing is reported after this. */
  stop(): void {
    this.#stopped = true;
    this.#task?.stop();
  }

  synced({ kind, endedAt, deltas }: Pick<SyncReport, "kind" | "endedAt" | "deltas">): void {
    const { clock, onVerified, reconciler } = this.#parts;
    for (const comparing of this.#comparing) {
      for (const own of [...deltas, ...reconciler.staleDeletions]) comparing.own.add(own);
      comparing.inDoubt ||= kind === "full";
    }
    if (deltas.length > 0) {
      this.#changedAt = clock.monotonic();
      this.#task?.periodChanged();
    }
    if (kind !== "full") return;
    this.#fullSyncAt = clock.monotonic();
    this.#last = { at: endedAt, comparison: { kind: "compared", differences: [] } };
    onVerified(endedAt);
  }

  failed(): void {
    for (const comparing of this.#comparing) comparing.inDoubt = true;
  }

  /**
   * Compares at once, for a repair, and reports nothing.
   * @param isUrgent rules are known to be wrong
   * @returns undefined where our tables cannot be read or are not understood, or syncs leave the result in doubt
   */
  async recheck(scope: ComparisonScope, isUrgent: boolean): Promise<readonly TableDelta[] | undefined> {
    const { listings, urgentListings } = this.#parts;
    for (let tries = 0; tries < TRIES; tries++) {
      const { comparison, inDoubt } = await this.#compare(scope, isUrgent ? urgentListings : listings);
      if (comparison.kind === "unreadable") return undefined;
      if (!inDoubt) return comparison.differences;
    }
    return undefined;
  }

  /**
   * What the kernel has that it should not have, and the other way round: as of now, or of the last comparison where that is
   * recent, or nobody else changed anything since, and syncs have waited for listings as long as they may; or where the kernel
   * cannot be listed in time.
   * @param signal gives up; the listing ends when nobody else wants it
   */
  async find(signal?: AbortSignal): Promise<Finding> {
    const { quiet, clock } = this.#parts;
    const isRecent = this.#last !== undefined && clock.now() - this.#last.at < RECENT;
    const recent = isRecent || (await this.#isUnchanged()) ? this.#last : undefined;
    if (quiet.isSpent && recent !== undefined) return recent;
    const late = new AbortController();
    const timer = clock.after(recent === undefined ? PATIENCE.older : PATIENCE.recent, () => late.abort());
    const stop = firstOf(late.signal, signal);
    const gaveUp = new Promise<undefined>((resolve) => {
      stop.addEventListener("abort", () => resolve(undefined), { once: true });
    });
    let found: Finding | undefined;
    for (let tries = 0; found === undefined && tries < TRIES && !stop.aborted; tries++) {
      found = await Promise.race([this.#look(stop), gaveUp]);
    }
    timer.cancel();
    if (found?.comparison.kind === "compared") return found;
    return this.#last ?? found ?? { at: clock.now(), comparison: UNKNOWN };
  }

  #pause(took: number): number {
    if (this.#waitFor > 0) return this.#waitFor;
    const { watch, maxPeriodMs } = this.#parts;
    const period = Math.min(maxPeriodMs(), Math.max(MIN_PERIOD, PERIOD_IN_COSTS * took));
    // A turn that only asks the watch takes next to nothing.
    const isSoon = watch.isTrusted || this.#isInDoubt || this.#changedAt > this.#turnAt;
    return isSoon ? Math.min(period, PERIOD_OF_CHANGE) : period;
  }

  async #verify(): Promise<void> {
    const now = this.#parts.clock.monotonic();
    this.#waitFor = this.#fullSyncAt + MIN_PERIOD - now;
    if (this.#waitFor > 0) return;
    this.#turnAt = now;
    if (await this.#isUnchanged()) this.#parts.onVerified(this.#parts.clock.now());
    else await this.#look();
  }

  /** Whether what was found right lately is right still: since then nobody changed our tables but our syncs. */
  async #isUnchanged(): Promise<boolean> {
    const { watch, clock, maxPeriodMs } = this.#parts;
    if (this.#last?.comparison.kind !== "compared" || this.#last.comparison.differences.length > 0) return false;
    const age = clock.now() - this.#last.at;
    const period = Math.max(MIN_PERIOD_WATCHED, PERIOD_IN_COSTS_WATCHED * this.#cost);
    return age < Math.min(maxPeriodMs(), period) && (await watch.isIntactSince(this.#last.at));
  }

  /** Compares, after the comparison that is under way; undefined where a sync left it in doubt. Never rejects. */
  #look(signal?: AbortSignal): Promise<Finding | undefined> {
    this.#next ??= this.#begin();
    const look = this.#next;
    look.wanted++;
    const leave = (): void => {
      if (--look.wanted === 0) look.stop.abort(new NftStoppedError());
    };
    signal?.addEventListener("abort", leave, { once: true });
    return look.result.finally(() => signal?.removeEventListener("abort", leave));
  }

  #begin(): Look {
    const stop = new AbortController();
    const result = this.#running.then(async () => {
      this.#next = undefined;
      return await this.#lookNow(stop.signal);
    });
    this.#running = result;
    return { result, stop, wanted: 0 };
  }

  async #lookNow(signal: AbortSignal): Promise<Finding | undefined> {
    const { clock, listings, urgentListings } = this.#parts;
    const [at, startedAt] = [clock.now(), clock.monotonic()];
    const isUrgent = this.#isUrgent;
    this.#isUrgent = false;
    const { comparison, inDoubt } = await this.#compare("everything", isUrgent ? urgentListings : listings, signal);
    const finding = { at, comparison };
    this.#cost = clock.monotonic() - startedAt;
    if (signal.aborted || this.#stopped) return finding;
    if (inDoubt && comparison.kind === "compared") return undefined;
    this.#report(finding, inDoubt);
    return finding;
  }

  /** The differences that no sync of ours explains. */
  async #compare(
    scope: ComparisonScope,
    listings: TableLister,
    signal?: AbortSignal,
  ): Promise<{ readonly comparison: KernelComparison; readonly inDoubt: boolean }> {
    const { reconciler } = this.#parts;
    const comparing: Comparing = { own: new Set(reconciler.staleDeletions), inDoubt: false };
    this.#comparing.add(comparing);
    const found = await compareKernel(listings, reconciler.state.ruleset, signal, scope);
    this.#comparing.delete(comparing);
    const { own, inDoubt } = comparing;
    if (found.kind === "unreadable") return { comparison: found, inDoubt };
    const explained = [...own, ...reconciler.state.pending(), ...reconciler.staleDeletions];
    return { comparison: { kind: "compared", differences: unexplained(found.differences, explained) }, inDoubt };
  }

  #report(finding: Finding, inDoubt: boolean): void {
    const { comparison } = finding;
    this.#isInDoubt = comparison.kind === "unreadable";
    if (comparison.kind === "unreadable") {
      this.#unreadable(comparison, inDoubt);
      return;
    }
    this.#failures.end();
    this.#isUnderstood = true;
    this.#last = finding;
    if (this.#reports === undefined) return;
    if (comparison.differences.length > 0) this.#reports.onDifferences(comparison.differences);
    else this.#parts.onVerified(this.#parts.clock.now());
  }

  /** Reports once what is not understood: a rebuild that does not mend it would be repeated without end. */
  #unreadable(
    { reason, hint, isNftAtFault }: Extract<KernelComparison, { kind: "unreadable" }>,
    inDoubt: boolean,
  ): void {
    if (this.#reports !== undefined && this.#isUnderstood && !isNftAtFault && !inDoubt) {
      this.#isUnderstood = false;
      this.#reports.onUnreadable(reason);
      return;
    }
    this.#failures.add(reason, hint === undefined ? {} : { hint });
  }
}
