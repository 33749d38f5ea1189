import type { Timer } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import type { ProxyOptions } from "../config/options.ts";
import { DriftRepair } from "../drift/drift-repair.ts";
import { KernelEvents } from "../drift/kernel-events.ts";
import { Verifier } from "../drift/verifier.ts";
import { type CostlyTable, costlyTablesAdvice, costlyTableText } from "../kernel/others-sets.ts";
import { QUARANTINE_RETRY_PERIOD } from "../sync/quarantine.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { Proxier } from "./proxier.ts";

/** Wait for further changes of the host, which often come together. Milliseconds. */
const HOST_SETTLING = 200;

/** How often to look for costly tables of other software. Milliseconds. */
const COSTLY_TABLES_PERIOD = 600_000;

/**
 * Creates the parts that keep the rules right while no object changes. They follow the kernel: changes by
 * other programs are repaired, and the host's addresses read again. They run periodic tasks: compare
 * everything, delete stale chains, retry quarantined Services, look for costly tables of other software.
 * @param options returns the current options
 * @param onAddresses called with all addresses of the host after they were read
 * @param onVerified called with the time at which our tables were correct, milliseconds since 1970
 */
export function createUpkeep(
  { ownCommits, tables, nft, logger, system, dryRun }: DaemonInput,
  options: () => ProxyOptions,
  { loop, reconciler, nodeContext }: Proxier,
  onAddresses: (addresses: readonly string[]) => void,
  onVerified: (at: number) => void,
) {
  const { clock, listenToKernel: listen } = system;
  const maxPeriodMs = () => options().fullResyncPeriodMs;
  const events = new KernelEvents({
    ...{ listen, ownCommits, clock, logger },
    onCommit: (commit) => void repair.committed(commit),
    needsElementsOfOwnCommits: () => repair.needsElementsOfOwnCommits,
    onHostChange: () => readHostSoon(),
    onListening: () => {
      verifier.compareNow();
      readHostSoon();
    },
  });
  const verifier = new Verifier({
    ...{ tables, events, clock, logger, reconciler, maxPeriodMs, onVerified },
    onDifferences: (found) => repair.foundDifferences(found),
    onUnreadable: (reason) => repair.foundUnreadable(reason),
  });
  const repair = new DriftRepair({ clock, logger, loop, verifier, reconciler });
  const hostFailures = new FailureLog({ logger, clock }, "read the addresses of this host");
  let hostTimer: Timer | undefined;
  let costlyTables: readonly CostlyTable[] = [];
  let areCostlyLogged = false;

  /** Reads the host's addresses, and requests a sync if rules depend on a change. Never rejects. */
  const readHost = async (): Promise<void> => {
    try {
      await nodeContext.refresh();
      onAddresses(nodeContext.host.local);
      hostFailures.end();
    } catch (error) {
      hostFailures.add(messageOf(error));
    }
    loop.requestIfContextChanged();
  };

  const readHostSoon = () => {
    hostTimer ??= clock.after(HOST_SETTLING, () => {
      hostTimer = undefined;
      void readHost();
    });
  };

  /** Looks for tables of other software that slow transactions down. Logs them once, when there are any. */
  const findCostlyTables = async (): Promise<void> => {
    costlyTables = await system.costlyTables(nft).catch(() => []);
    if (areCostlyLogged || costlyTables.length === 0) return;
    areCostlyLogged = true;
    const counts = costlyTables.map(costlyTableText);
    const action = costlyTablesAdvice(costlyTables);
    logger.warn({ tables: counts, action }, "sets of other software slow down changes of both IP families");
  };

  /**
   * Deletes stale chains. Reads the host after a failure, and in a dry run, which gets no notifications.
   * Requests a sync if the node context has changed: the addresses of API servers are part of it, and nothing
   * announces new ones.
   */
  const maintain = async (): Promise<void> => {
    if (dryRun || hostFailures.isFailing) await readHost();
    if (!dryRun) await loop.deleteStaleChains();
    loop.requestIfContextChanged();
  };

  const periodic: PeriodicTask[] = [];
  const every = (period: number | (() => number), action: () => Promise<void>) =>
    periodic.push(new PeriodicTask(clock, period, action));

  return {
    verifier,
    /** The tables of other software that slow transactions down, as last counted. */
    costlyTables: () => costlyTables,
    /** Those to which syncs must be reported. */
    subscribers: [verifier, repair],
    start(): void {
      every(() => options().syncPeriodMs, maintain);
      every(QUARANTINE_RETRY_PERIOD, async () => loop.retryRefused());
      // A dry run changes nothing, so there is nothing to repair.
      if (dryRun) return;
      every(COSTLY_TABLES_PERIOD, findCostlyTables);
      events.start();
      verifier.start();
      every(maxPeriodMs, () => repair.fullResync("periodic"));
    },
    stop(): void {
      hostTimer?.cancel();
      for (const task of periodic) task.stop();
      events.stop();
      verifier.stop();
      repair.stop();
    },
    /** Applies changed periods. Reads the host again, because other addresses may serve NodePorts now. */
    optionsChanged(): void {
      for (const task of periodic) task.periodChanged();
      void readHost();
    },
  };
}
