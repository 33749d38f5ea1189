import type { Clock } from "../base/clock.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import { firstOf } from "../base/signals.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import { type ComparisonScope, compareKernel, type KernelComparison } from "../kernel/read-kernel.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { type TableDelta, unexplained } from "../nft/delta.ts";
import type { Reconciler } from "../sync/reconciler.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";
import type { KernelEvents } from "./kernel-events.ts";

/** Parts of a {@link Verifier}. */
export interface VerifierParts {
  readonly tables: TableReader;
  readonly reconciler: Pick<Reconciler, "state" | "unsent">;
  readonly clock: Clock;
  /** Tells whether another program changed our tables. */
  readonly events: Pick<KernelEvents, "isTrusted" | "isIntactSince">;
  readonly logger: Logger;
  /** Maximum time between two comparisons. Milliseconds. */
  readonly maxPeriodMs: () => number;
  /** Called when the tables are known to be correct, with the time in milliseconds since 1970. */
  readonly onVerified: (at: number) => void;
  /** Called with differences that our syncs do not explain, once the verifier was started. */
  readonly onDifferences: (found: readonly TableDelta[]) => void;
  /** Called with the reason if tables that could be parsed before no longer can, once it was started. */
  readonly onUnreadable: (reason: string) => void;
}

/** The result of a comparison with the kernel, without differences that our syncs explain. */
export interface TimedComparison {
  /** When the kernel was read, on the monotonic clock. */
  readonly at: number;
  /** Duration, milliseconds; 0 if unknown. */
  readonly took: number;
  readonly comparison: KernelComparison;
  /** Whether a sync failed or a full sync ran meanwhile, so that the result may be wrong. */
  readonly inDoubt: boolean;
}

/**
 * Time between the end of a verification and the next one, milliseconds. A verification takes up to a second
 * at 10,000 Services, so tables are verified every 30 s.
 */
const PERIOD = 29_000;

/**
 * Time between two comparisons while the kernel reports no foreign change, in durations of the last one:
 * 180,000 elements take 0.6 s of CPU. In between, the lack of notifications is verification enough. The first
 * verification after the start compares in any case, so that the result of a start is read back once.
 */
const PERIOD_IN_COSTS = 1000;

const UNKNOWN: KernelComparison = {
  kind: "unreadable",
  reason: "syncs failed while our tables were compared",
  isNftAtFault: true,
};

/** Maximum number of attempts of a comparison while syncs leave its result in doubt. */
const TRIES = 3;

/** A running comparison. */
interface Comparing {
  /** The changes that our syncs made meanwhile, or have yet to send. */
  readonly own: Set<TableDelta>;
  inDoubt: boolean;
  readonly stop: AbortController;
}

/** A comparison that runs or is about to start. */
interface SharedComparison {
  readonly result: Promise<TimedComparison | undefined>;
  readonly stop: AbortController;
  /** Number of callers that wait for the result. */
  wanted: number;
}

/**
 * Verifies every 30 s that our tables in the kernel are as desired. While the kernel reports every change,
 * verified tables stay verified as long as only we commit. Otherwise, and from time to time in any case, it
 * compares them element by element while syncs continue. Callers that ask meanwhile share one comparison,
 * which is aborted when no caller waits for it any more. Without the kernel's notifications, only full
 * resyncs compare.
 */
export class Verifier implements SyncSubscriber {
  readonly #parts: VerifierParts;
  readonly #underWay = new Set<Comparing>();
  readonly #failures: FailureLog;
  #task: PeriodicTask | undefined;
  #isStopped = false;
  /** The last result. It still holds, apart from what syncs have sent since. */
  #last: TimedComparison | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #next: SharedComparison | undefined;
  /** Whether the tables could be parsed when they were last compared. */
  #isUnderstood = false;

  constructor(parts: VerifierParts) {
    this.#parts = parts;
    this.#failures = new FailureLog(parts, "read our tables to verify them");
  }

  start(): void {
    const period = () => Math.min(PERIOD, this.#parts.maxPeriodMs());
    this.#task = new PeriodicTask(this.#parts.clock, period, () => this.#verify());
  }

  /** Compares now, because changes by others may have been missed. */
  compareNow(): void {
    if (this.#task !== undefined && this.#last !== undefined) void this.#compareForAll();
  }

  /** Ends running comparisons, which then find unreadable tables. Nothing is reported after this. */
  stop(): void {
    this.#isStopped = true;
    this.#task?.stop();
    for (const { stop } of this.#underWay) stop.abort(new NftStoppedError());
  }

  synced({ kind, endedAt, deltas }: Pick<SyncReport, "kind" | "endedAt" | "deltas">): void {
    const { clock, onVerified } = this.#parts;
    for (const comparing of this.#underWay) {
      for (const own of [...deltas, ...this.#parts.reconciler.unsent]) comparing.own.add(own);
      comparing.inDoubt ||= kind === "full";
    }
    if (kind !== "full") return;
    const comparison: KernelComparison = { kind: "compared", differences: [] };
    this.#last = { at: clock.monotonic(), took: this.#last?.took ?? 0, comparison, inDoubt: false };
    onVerified(endedAt);
  }

  failed(): void {
    for (const comparing of this.#underWay) comparing.inDoubt = true;
  }

  /**
   * Compares immediately, for a repair, without any callbacks.
   * @returns undefined if our tables cannot be read or are not understood, or if syncs left the result in
   * doubt three times
   */
  async recheck(scope: ComparisonScope): Promise<readonly TableDelta[] | undefined> {
    for (let tries = 0; tries < TRIES; tries++) {
      const { comparison, inDoubt } = await this.#compareOnce(scope);
      if (comparison.kind === "unreadable") return undefined;
      if (!inDoubt) return comparison.differences;
    }
    return undefined;
  }

  /**
   * Finds the differences between the kernel and the desired state.
   * @param signal stops waiting; the comparison ends if no other caller waits for it
   */
  async find(signal?: AbortSignal): Promise<TimedComparison> {
    for (let tries = 0; tries < TRIES && signal?.aborted !== true; tries++) {
      const found = await this.#compareForAll(signal);
      if (found !== undefined) return found;
    }
    return { at: this.#parts.clock.monotonic(), took: 0, comparison: UNKNOWN, inDoubt: true };
  }

  async #verify(): Promise<void> {
    const { events, clock, onVerified } = this.#parts;
    if (!events.isTrusted || this.#last === undefined) return;
    if (await this.#isUnchanged(this.#last)) onVerified(clock.now());
    else await this.#compareForAll();
  }

  /** Whether verified tables are still correct: only our syncs have changed them since. */
  async #isUnchanged({ at, comparison, took }: TimedComparison): Promise<boolean> {
    const { events, clock, maxPeriodMs } = this.#parts;
    if (comparison.kind !== "compared" || comparison.differences.length > 0) return false;
    const period = took === 0 ? 0 : Math.min(maxPeriodMs(), Math.max(PERIOD, PERIOD_IN_COSTS * took));
    return clock.monotonic() - at < period && (await events.isIntactSince(at));
  }

  /** Compares after the current comparison; undefined if a sync left the result in doubt. Never rejects. */
  #compareForAll(signal?: AbortSignal): Promise<TimedComparison | undefined> {
    this.#next ??= this.#newComparison();
    const shared = this.#next;
    shared.wanted++;
    const leave = (): void => {
      if (--shared.wanted > 0) return;
      shared.stop.abort(new NftStoppedError());
      // Whoever asks next must not wait for a comparison that has ended before it began.
      if (this.#next === shared) this.#next = undefined;
    };
    signal?.addEventListener("abort", leave, { once: true });
    return shared.result.finally(() => signal?.removeEventListener("abort", leave));
  }

  #newComparison(): SharedComparison {
    const stop = new AbortController();
    const result = this.#running.then(async () => {
      if (this.#next?.result === result) this.#next = undefined;
      return await this.#compareAndReport(stop.signal);
    });
    this.#running = result;
    return { result, stop, wanted: 0 };
  }

  async #compareAndReport(signal: AbortSignal): Promise<TimedComparison | undefined> {
    const compared = await this.#compareOnce("everything", signal);
    if (signal.aborted || this.#isStopped) return compared;
    if (compared.inDoubt && compared.comparison.kind === "compared") return undefined;
    this.#report(compared);
    return compared;
  }

  /**
   * Compares while syncs continue, and ignores everything that they change meanwhile.
   * @param signal ends the comparison
   */
  async #compareOnce(scope: ComparisonScope, signal?: AbortSignal): Promise<TimedComparison> {
    const { reconciler, tables, clock } = this.#parts;
    const at = clock.monotonic();
    const stop = new AbortController();
    const comparing: Comparing = { own: new Set(reconciler.unsent), inDoubt: false, stop };
    this.#underWay.add(comparing);
    if (this.#isStopped) stop.abort(new NftStoppedError());
    const found = await compareKernel(tables, reconciler.state.ruleset, firstOf(stop.signal, signal), scope);
    this.#underWay.delete(comparing);
    const { own, inDoubt } = comparing;
    const comparison: KernelComparison =
      found.kind === "unreadable"
        ? found
        : { ...found, differences: unexplained(found.differences, [...own, ...reconciler.unsent]) };
    return { at, took: clock.monotonic() - at, comparison, inDoubt };
  }

  #report(compared: TimedComparison): void {
    const { comparison, inDoubt } = compared;
    if (comparison.kind === "unreadable") {
      this.#unreadable(comparison, inDoubt);
      return;
    }
    this.#failures.end();
    this.#isUnderstood = true;
    this.#last = compared;
    if (this.#task === undefined) return;
    const { clock, onVerified, onDifferences } = this.#parts;
    if (comparison.differences.length > 0) onDifferences(comparison.differences);
    else onVerified(clock.now());
  }

  /** Reports unreadable tables once: a rebuild that does not help would be repeated endlessly. */
  #unreadable(
    { reason, hint, isNftAtFault }: Extract<KernelComparison, { kind: "unreadable" }>,
    inDoubt: boolean,
  ): void {
    if (this.#task !== undefined && this.#isUnderstood && !isNftAtFault && !inDoubt) {
      this.#isUnderstood = false;
      this.#parts.onUnreadable(reason);
      return;
    }
    this.#failures.add(reason, { hint });
  }
}
