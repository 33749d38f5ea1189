import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import type { BoundedFrequencyRunner, RunRequest } from "./bounded-frequency-runner.ts";
import type { Changes, ChangeTracker } from "./change-tracker.ts";
import type { NodeContextReader } from "./node-context.ts";
import type { Reconciler } from "./reconciler.ts";
import type { RepairOptions } from "./repairs.ts";
import { type FullSyncReason, type SyncSubscriber, syncReporter } from "./sync-report.ts";

/** Parts of a {@link SyncLoop}. */
export interface SyncLoopParts {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tracker: ChangeTracker;
  readonly runner: BoundedFrequencyRunner;
  readonly reconciler: Reconciler;
  readonly nodeContext: NodeContextReader;
}

/**
 * A caller of {@link SyncLoop.atOneMoment} that waits. A sync calls it once all current objects are rendered:
 * it reads them and returns a function, which the sync calls once the kernel has their rules. If the sync
 * fails, the next one calls the reader again.
 */
type WaitingReader = () => () => void;

/** Maximum time that {@link SyncLoop.atOneMoment} waits for a successful sync. Milliseconds. */
const LONGEST_WAIT = 5000;

/**
 * Runs syncs: takes the tracked changes and the node context, has the reconciler bring them to the kernel,
 * and gives one report to every subscriber. Changes request a sync from the runner directly, everything else
 * by {@link SyncLoop.request}.
 */
export class SyncLoop {
  readonly #parts: SyncLoopParts;
  #subscribers: readonly SyncSubscriber[] = [];
  /** The last change of {@link SyncLoop.betweenSyncs}, which may be under way. */
  #lastBetween: Promise<void> = Promise.resolve();
  /** The sync that is under way, or the last one. */
  #running: Promise<unknown> = Promise.resolve();
  /** Whether to delete stale chains after the next sync. */
  #isCleanUpDue = false;
  readonly #readers = new Set<WaitingReader>();
  readonly #reportOf = syncReporter();

  constructor(parts: SyncLoopParts) {
    this.#parts = parts;
  }

  /** Starts to sync. @param subscribers receive the result of every sync, in this order */
  start(subscribers: readonly SyncSubscriber[]): void {
    this.#subscribers = subscribers;
    this.#parts.runner.start(() => {
      const running = this.#sync();
      this.#running = running.catch(nothing);
      return running;
    });
  }

  /** Starts no more syncs; resolves when the current one has ended. */
  async stop(): Promise<void> {
    await this.#parts.runner.stop();
  }

  /** The desired ruleset; undefined while a repair or a full sync is due or under way, as at the start. */
  get desiredUnlessRepairing(): Ruleset | undefined {
    const { reconciler } = this.#parts;
    return reconciler.isRepairDue ? undefined : reconciler.state.ruleset;
  }

  /** Requests a sync, unless the first lists are still missing. */
  request(options?: RunRequest): void {
    if (this.#parts.tracker.waitingFor.length === 0) this.#parts.runner.request(options);
  }

  /** Requests an immediate full sync. */
  requestFullSync(reason: FullSyncReason): void {
    this.#parts.reconciler.requestFullSync(reason);
    this.request({ isUrgent: true });
  }

  /**
   * Requests an immediate sync that repairs changes by other programs: see {@link Reconciler.requestRepair}.
   */
  requestRepair(found: readonly TableDelta[], options?: RepairOptions): void {
    this.#parts.reconciler.requestRepair(found, options);
    this.request({ isUrgent: true });
  }

  /** Requests a sync if the node context has changed since the last one. */
  requestIfContextChanged(): void {
    const { reconciler, nodeContext } = this.#parts;
    if (!reconciler.isCurrent(nodeContext.current())) this.request();
  }

  /** Requests a sync that tries refused rules again, if there are any. */
  retryRefused(): void {
    if (this.#parts.reconciler.retryRefused()) this.request();
  }

  /**
   * Deletes stale chains, now or right after the sync that is due. The next sync waits for it, because the
   * kernel must not change between what a sync reads and what it sends. Never rejects; subscribers learn of a
   * failure.
   */
  deleteStaleChains(): Promise<void> {
    const isBusy = this.#parts.runner.pendingSince !== undefined;
    this.#isCleanUpDue = isBusy;
    return isBusy ? Promise.resolve() : this.betweenSyncs(() => this.#deleteNow());
  }

  /**
   * Changes something in our tables that the desired state does not contain. Waits for the current sync; the
   * next one waits for it.
   * @throws as `change` does
   */
  betweenSyncs<Result>(change: () => Promise<Result>): Promise<Result> {
    const changed = Promise.all([this.#lastBetween, this.#running]).then(change);
    this.#lastBetween = changed.then(nothing, nothing);
    return changed;
  }

  /** Resolves when the sync that is under way has ended. Never rejects. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /**
   * Calls `use` with the result of `read` and the ruleset that the kernel has for it: now if the kernel has
   * everything, otherwise in the next sync: `read` when it has rendered all current objects, `use` when the
   * kernel has their rules. Changes in between are in neither. If no sync succeeds within 5 seconds, the
   * ruleset is the committed one.
   * @throws as `read` and `use` do; the sync that calls them goes on
   */
  async atOneMoment<Read, Used>(
    read: () => Read,
    use: (read: Read, committed: Ruleset) => Used,
  ): Promise<Used> {
    const { runner, clock, reconciler } = this.#parts;
    // `reconciler.state` each time, as a sync may replace it.
    if (runner.pendingSince === undefined) return use(read(), reconciler.state.ruleset);
    return await new Promise((resolve, reject) => {
      const answer = (result: () => Used) => {
        if (!this.#readers.delete(reader)) return;
        late.cancel();
        try {
          resolve(result());
        } catch (error) {
          reject(error);
        }
      };
      const late = clock.after(LONGEST_WAIT, () =>
        answer(() => use(read(), reconciler.state.committedRuleset())),
      );
      const reader: WaitingReader = () => {
        const objects = settled(read);
        return () => answer(() => use(objects(), reconciler.state.ruleset));
      };
      this.#readers.add(reader);
    });
  }

  async #sync(): Promise<boolean> {
    await this.#lastBetween;
    const isDone = await this.#syncNow();
    if (isDone && this.#isCleanUpDue) await this.#deleteNow();
    return isDone;
  }

  async #deleteNow(): Promise<void> {
    this.#isCleanUpDue = false;
    try {
      await this.#parts.reconciler.deleteStaleChains();
    } catch (error) {
      this.#tell((subscriber) => subscriber.cleanUpFailed?.(error));
    }
  }

  async #syncNow(): Promise<boolean> {
    const { clock, tracker, reconciler } = this.#parts;
    const startedAt = clock.now();
    const startedMonotonic = clock.monotonic();
    // The wall clock may be set during a sync, which would then seem to take days, or to end before it began.
    const wallTimeOf = (at: number) => startedAt + at - startedMonotonic;
    const endedAt = () => wallTimeOf(clock.monotonic());
    const isFull = reconciler.isFullSyncDue;
    let changes: Changes | undefined;
    try {
      const nodeContext = this.#parts.nodeContext.current();
      // After `current()`, which may throw: `putBack` returns only times, so Services that the reconciler has
      // not received would be lost.
      changes = tracker.take();
      const atOnce = this.#readers.size > 0;
      const syncing = reconciler.sync({ nodeContext, services: changes.services, atOnce });
      // With `atOnce`, everything is rendered now: read the objects before anything else runs.
      const ends = [...this.#readers].map((read) => read());
      const outcome = await syncing;
      for (const end of ends) end();
      const synced = tracker.synced(changes, outcome.waiting);
      // While Services wait there is no pause: each sync sends part of their rules, and small Services first.
      // Stale elements harm nobody, so later syncs delete them without haste.
      const isUrgent = outcome.waiting.size > 0;
      if (isUrgent || reconciler.state.hasStale) this.#parts.runner.request({ isUrgent });
      // The comparison that found what this sync repairs ran before it, and counts, too.
      const durationMs = clock.monotonic() - startedMonotonic + (outcome.comparisonMs ?? 0);
      const times = {
        startedAt,
        endedAt: endedAt(),
        startedMonotonic,
        durationMs,
        triggerTimes: synced.flatMap(({ trigger }) =>
          trigger === undefined ? [] : [{ family: trigger.family, at: wallTimeOf(trigger.at) }],
        ),
        receivedAt: synced.map(({ receivedAt }) => wallTimeOf(receivedAt)),
      };
      const report = this.#reportOf(outcome, reconciler, { ...times, nodeContext });
      this.#tell((subscriber) => subscriber.synced(report));
      return true;
    } catch (error) {
      if (changes !== undefined) tracker.putBack(changes.times);
      if (error instanceof NftStoppedError) return false;
      const failure = { startedAt, endedAt: endedAt(), error, isFull };
      this.#tell((subscriber) => subscriber.failed?.(failure));
      return false;
    }
  }

  /** A subscriber that throws must not keep the others from their report, nor the loop from its next sync. */
  #tell(call: (subscriber: SyncSubscriber) => void): void {
    for (const subscriber of this.#subscribers) {
      try {
        call(subscriber);
      } catch (error) {
        this.#parts.logger.error({ error: messageOf(error) }, "internal error after a sync");
      }
    }
  }
}

/** Calls a function now. @returns a function that returns its result, or throws its error */
function settled<Result>(call: () => Result): () => Result {
  try {
    const result = call();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function nothing(): void {}
