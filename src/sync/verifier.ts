import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import type { ComparisonScope, KernelComparison } from "../kernel/read-kernel.ts";
import type { TableDelta } from "../nft/delta.ts";
import { type Compared, KernelComparer, type KernelComparerParts, TRIES } from "./kernel-comparer.ts";
import type { KernelEvents } from "./kernel-events.ts";
import { PeriodicTask } from "./periodic-task.ts";
import type { SyncReport, SyncSubscriber } from "./sync-report.ts";

/** Parts of a {@link Verifier}. */
export interface VerifierParts extends KernelComparerParts {
  /** Tells whether somebody else changed our tables. */
  readonly events: Pick<KernelEvents, "isTrusted" | "isIntactSince">;
  readonly logger: Logger;
  /** The longest time between two comparisons, milliseconds. */
  readonly maxPeriodMs: () => number;
  /** Called when the tables are known to be right, with the time in milliseconds since 1970. */
  readonly onVerified: (at: number) => void;
}

/** What a {@link Verifier} reports. */
export interface VerifierReports {
  /** Takes differences that no sync of ours explains. */
  readonly onDifferences: (found: readonly TableDelta[]) => void;
  /** Told why tables that were understood before are not any more. */
  readonly onUnreadable: (reason: string) => void;
}

/** A comparison with the kernel, without what syncs of ours explain, and its time. */
export interface TimedComparison {
  /** When the kernel was looked at, on the monotonic clock. */
  readonly at: number;
  readonly comparison: KernelComparison;
}

/** Time between two verifications, milliseconds. */
const PERIOD = 30_000;

/**
 * Where the kernel told of nobody else's change since the last comparison, that is enough for a verification, and the tables are
 * read again after a thousand times what the last comparison took: 180,000 elements take 0.6 s of CPU. The first
 * verification after the start reads them in any case, so that what a start wrote is seen once as it is in the kernel.
 */
const PERIOD_IN_COSTS = 1000;

const UNKNOWN: KernelComparison = {
  kind: "unreadable",
  reason: "syncs failed while our tables were compared",
  isNftAtFault: true,
};

/** A comparison under way, or about to begin. */
interface Look {
  readonly result: Promise<TimedComparison | undefined>;
  readonly stop: AbortController;
  /** How many want the result. */
  wanted: number;
}

/** What is known of the tables. */
interface Known extends TimedComparison {
  /** How long the last comparison took, milliseconds; 0 before the first one. */
  readonly took: number;
}

/**
 * Verifies every 30 s that our tables in the kernel are as desired. Where the kernel told of every change, tables that were right
 * and have only had our transactions since are right; else, and from time to time in any case, they are compared element by
 * element, beside syncs: what these change meanwhile is no difference. Several that ask meanwhile share one comparison, which
 * ends when nobody wants it any more. Without the kernel's notifications, only full resyncs compare.
 */
export class Verifier implements SyncSubscriber {
  readonly #parts: VerifierParts;
  readonly #comparer: KernelComparer;
  readonly #failures: FailureLog;
  #task: PeriodicTask | undefined;
  #isStopped = false;
  #reports: VerifierReports | undefined;
  /** What was found last, and still holds but for what syncs have sent since. */
  #last: Known | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #next: Look | undefined;
  /** Whether the tables were understood when they were last compared. */
  #isUnderstood = false;

  constructor(parts: VerifierParts) {
    this.#parts = parts;
    this.#comparer = new KernelComparer(parts);
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
      () => Math.min(PERIOD, this.#parts.maxPeriodMs()),
      () => this.#verify(),
    );
  }

  /** Compares now: until now, somebody else may have changed our tables unseen. */
  compareNow(): void {
    if (this.#task !== undefined && this.#last !== undefined) void this.#look();
  }

  /** Stops verifying. Nothing is reported after this. */
  stop(): void {
    this.#isStopped = true;
    this.#task?.stop();
    this.#comparer.stop();
  }

  synced({ kind, endedAt, deltas }: Pick<SyncReport, "kind" | "endedAt" | "deltas">): void {
    const { clock, onVerified } = this.#parts;
    this.#comparer.synced({ kind, deltas });
    if (kind !== "full") return;
    const comparison: KernelComparison = { kind: "compared", differences: [] };
    this.#last = { at: clock.monotonic(), comparison, took: this.#last?.took ?? 0 };
    onVerified(endedAt);
  }

  failed(): void {
    this.#comparer.failed();
  }

  /**
   * Compares at once, for a repair, and reports nothing.
   * @returns undefined where our tables cannot be read or are not understood, or syncs leave the result in doubt
   */
  recheck(scope: ComparisonScope): Promise<readonly TableDelta[] | undefined> {
    return this.#comparer.recheck(scope);
  }

  /**
   * What the kernel has that it should not have, and the other way round.
   * @param signal gives up; the comparison ends when nobody else wants it
   */
  async find(signal?: AbortSignal): Promise<TimedComparison> {
    for (let tries = 0; tries < TRIES && signal?.aborted !== true; tries++) {
      const found = await this.#look(signal);
      if (found !== undefined) return found;
    }
    return { at: this.#parts.clock.monotonic(), comparison: UNKNOWN };
  }

  async #verify(): Promise<void> {
    const { events, clock, onVerified } = this.#parts;
    if (!events.isTrusted || this.#last === undefined) return;
    if (await this.#isUnchanged(this.#last)) onVerified(clock.now());
    else await this.#look();
  }

  /** Whether what was found right is right still: since then nobody changed our tables but our syncs. */
  async #isUnchanged({ at, comparison, took }: Known): Promise<boolean> {
    const { events, clock, maxPeriodMs } = this.#parts;
    if (comparison.kind !== "compared" || comparison.differences.length > 0) return false;
    const period = Math.min(maxPeriodMs(), Math.max(PERIOD, PERIOD_IN_COSTS * took));
    return clock.monotonic() - at < period && (await events.isIntactSince(at));
  }

  /** Compares, after the comparison that is under way; undefined where a sync left it in doubt. Never rejects. */
  #look(signal?: AbortSignal): Promise<TimedComparison | undefined> {
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

  async #lookNow(signal: AbortSignal): Promise<TimedComparison | undefined> {
    const { clock } = this.#parts;
    const at = clock.monotonic();
    const compared = await this.#comparer.compare("everything", signal);
    const finding = { at, comparison: compared.comparison };
    if (signal.aborted || this.#isStopped) return finding;
    if (compared.inDoubt && compared.comparison.kind === "compared") return undefined;
    this.#report(at, compared);
    return finding;
  }

  #report(at: number, { comparison, inDoubt }: Compared): void {
    const { clock } = this.#parts;
    if (comparison.kind === "unreadable") {
      this.#unreadable(comparison, inDoubt);
      return;
    }
    this.#failures.end();
    this.#isUnderstood = true;
    this.#last = { at, comparison, took: clock.monotonic() - at };
    if (this.#reports === undefined) return;
    if (comparison.differences.length > 0) this.#reports.onDifferences(comparison.differences);
    else this.#parts.onVerified(clock.now());
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
