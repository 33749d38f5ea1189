import type { Clock } from "../base/clock.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import { type ComparisonScope, compareKernel, type KernelComparison } from "../kernel/read-kernel.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { inBoth, type TableDelta, unexplained } from "../nft/delta.ts";
import type { KernelEvents } from "./kernel-events.ts";
import { PeriodicTask } from "./periodic-task.ts";
import type { Reconciler } from "./reconciler.ts";
import type { SyncReport, SyncSubscriber } from "./sync-report.ts";

/** Parts of a {@link Verifier}. */
export interface VerifierParts {
  readonly tables: TableReader;
  /** Tells whether somebody else changed our tables. */
  readonly events: Pick<KernelEvents, "isTrusted" | "isIntactSince">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly reconciler: Pick<Reconciler, "state" | "staleDeletions">;
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

/** What a comparison found that no sync of ours explains. */
export interface Finding {
  /** When the kernel was looked at, on the monotonic clock. */
  readonly at: number;
  readonly comparison: KernelComparison;
}

/** Time between two verifications, milliseconds. */
const PERIOD = 30_000;

/**
 * Where the kernel told of nobody else's change since the last comparison, that is enough for a verification, and the tables are
 * read again after a thousand times what the last comparison took: 180,000 elements take 0.6 s of CPU.
 */
const PERIOD_IN_COSTS = 1000;

/** Differences are looked at again after this, milliseconds: elements that come and go meanwhile may be read or not. */
const SECOND_LOOK = 100;

/** How often a comparison is made again that a sync, which failed or repaired, leaves in doubt. */
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
 * Verifies every 30 s that our tables in the kernel are as desired. Where the kernel told of every change, tables that were right
 * and have only had our transactions since are right; else, and from time to time in any case, they are compared element by
 * element, beside syncs: what these change meanwhile is no difference. Several that ask meanwhile share one comparison, which
 * ends when nobody wants it any more. Without the kernel's notifications, only full resyncs compare.
 */
export class Verifier implements SyncSubscriber {
  readonly #parts: VerifierParts;
  #task: PeriodicTask | undefined;
  #stopped = false;
  #reports: VerifierReports | undefined;
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
    this.#stopped = true;
    this.#task?.stop();
    this.#next?.stop.abort(new NftStoppedError());
  }

  synced({ kind, endedAt, deltas }: Pick<SyncReport, "kind" | "endedAt" | "deltas">): void {
    const { clock, onVerified, reconciler } = this.#parts;
    for (const comparing of this.#comparing) {
      for (const own of [...deltas, ...reconciler.staleDeletions]) comparing.own.add(own);
      comparing.inDoubt ||= kind === "full";
    }
    if (kind !== "full") return;
    this.#last = { at: clock.monotonic(), comparison: { kind: "compared", differences: [] } };
    onVerified(endedAt);
  }

  failed(): void {
    for (const comparing of this.#comparing) comparing.inDoubt = true;
  }

  /**
   * Compares at once, for a repair, and reports nothing.
   * @returns undefined where our tables cannot be read or are not understood, or syncs leave the result in doubt
   */
  async recheck(scope: ComparisonScope): Promise<readonly TableDelta[] | undefined> {
    for (let tries = 0; tries < TRIES; tries++) {
      const { comparison, inDoubt } = await this.#compare(scope);
      if (comparison.kind === "unreadable") return undefined;
      if (!inDoubt) return comparison.differences;
    }
    return undefined;
  }

  /**
   * What the kernel has that it should not have, and the other way round.
   * @param signal gives up; the comparison ends when nobody else wants it
   */
  async find(signal?: AbortSignal): Promise<Finding> {
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
  async #isUnchanged({ at, comparison }: Finding): Promise<boolean> {
    const { events, clock, maxPeriodMs } = this.#parts;
    if (comparison.kind !== "compared" || comparison.differences.length > 0) return false;
    const period = Math.min(maxPeriodMs(), Math.max(PERIOD, PERIOD_IN_COSTS * this.#cost));
    return clock.monotonic() - at < period && (await events.isIntactSince(at));
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
    const { clock } = this.#parts;
    const at = clock.monotonic();
    const { comparison, inDoubt } = await this.#compare("everything", signal);
    const finding = { at, comparison };
    this.#cost = clock.monotonic() - at;
    if (signal.aborted || this.#stopped) return finding;
    if (inDoubt && comparison.kind === "compared") return undefined;
    this.#report(finding, inDoubt);
    return finding;
  }

  /** The differences that no sync of ours explains; those of elements are looked at twice. */
  async #compare(
    scope: ComparisonScope,
    signal?: AbortSignal,
  ): Promise<{ readonly comparison: KernelComparison; readonly inDoubt: boolean }> {
    const first = await this.#compareOnce(scope, signal);
    if (first.comparison.kind === "unreadable") return first;
    const { differences } = first.comparison;
    const sets = differences.flatMap(({ family, elements }) =>
      elements.map(({ spec }) => `${family} ${spec.name}`),
    );
    if (sets.length === 0) return first;
    await new Promise<void>((resolve) => this.#parts.clock.after(SECOND_LOOK, resolve));
    const second = await this.#compareOnce(new Set(sets), signal);
    if (second.comparison.kind === "unreadable") return second;
    const confirmed = inBoth(second.comparison.differences, differences);
    return {
      comparison: { kind: "compared", differences: confirmed },
      inDoubt: first.inDoubt || second.inDoubt,
    };
  }

  async #compareOnce(
    scope: ComparisonScope,
    signal?: AbortSignal,
  ): Promise<{ readonly comparison: KernelComparison; readonly inDoubt: boolean }> {
    const { reconciler, tables } = this.#parts;
    const comparing: Comparing = { own: new Set(reconciler.staleDeletions), inDoubt: false };
    this.#comparing.add(comparing);
    const found = await compareKernel(tables, reconciler.state.ruleset, signal, scope);
    this.#comparing.delete(comparing);
    const { own, inDoubt } = comparing;
    if (found.kind === "unreadable") return { comparison: found, inDoubt };
    const explained = [...own, ...reconciler.state.pending(), ...reconciler.staleDeletions];
    return {
      comparison: { kind: "compared", differences: unexplained(found.differences, explained) },
      inDoubt,
    };
  }

  #report(finding: Finding, inDoubt: boolean): void {
    const { comparison } = finding;
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
