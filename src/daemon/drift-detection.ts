import { PeriodicTask } from "../base/periodic-task.ts";
import type { ProxyOptions } from "../config/options.ts";
import { DriftRepair } from "../drift/drift-repair.ts";
import { KernelEvents } from "../drift/kernel-events.ts";
import { Verifier } from "../drift/verifier.ts";
import type { SyncSubscriber } from "../sync/sync-report.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { Proxier } from "./proxier.ts";

/**
 * Finds changes of other programs in our tables, by notifications and comparisons, and requests their repair.
 * Reports changes of the host.
 */
export class DriftDetection {
  readonly verifier: Verifier;
  readonly #events: KernelEvents;
  readonly #repair: DriftRepair;
  readonly #startResyncs: () => PeriodicTask;
  readonly #onHostChange: () => void;
  #resyncs: PeriodicTask | undefined;

  /**
   * @param options returns the current options
   * @param onHostChange called when the host's addresses may have changed
   * @param onVerified called with the time at which our tables were correct, milliseconds since 1970
   */
  constructor(
    { ownCommits, tables, system, logger }: DaemonInput,
    options: () => ProxyOptions,
    { loop, reconciler }: Proxier,
    onHostChange: () => void,
    onVerified: (at: number) => void,
  ) {
    const { clock, listenToKernel: listen } = system;
    const maxPeriodMs = () => options().fullResyncPeriodMs;
    const events = new KernelEvents({ listen, ownCommits, clock, logger });
    const verifier = new Verifier({ tables, events, clock, logger, reconciler, maxPeriodMs, onVerified });
    const repair = new DriftRepair({ clock, logger, loop, verifier, reconciler });
    this.verifier = verifier;
    this.#events = events;
    this.#repair = repair;
    this.#onHostChange = onHostChange;
    this.#startResyncs = () => new PeriodicTask(clock, maxPeriodMs, () => repair.fullResync("periodic"));
  }

  /** Those to which syncs must be reported. */
  get subscribers(): readonly SyncSubscriber[] {
    return [this.verifier, this.#repair];
  }

  start(): void {
    const repair = this.#repair;
    this.#events.start({
      onCommit: (commit) => void repair.committed(commit),
      needsOwnElements: () => repair.needsOwnElements,
      onHostChange: this.#onHostChange,
      onBegun: () => {
        this.verifier.compareNow();
        this.#onHostChange();
      },
    });
    this.verifier.start({
      onDifferences: (found) => repair.drifted({ kind: "differences", found }),
      onUnreadable: (reason) => repair.drifted({ kind: "unreadable", reason }),
    });
    this.#resyncs = this.#startResyncs();
  }

  stop(): void {
    this.#events.stop();
    this.verifier.stop();
    this.#repair.stop();
    this.#resyncs?.stop();
  }

  periodChanged(): void {
    this.#resyncs?.periodChanged();
  }
}
