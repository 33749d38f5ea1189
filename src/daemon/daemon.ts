import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { StaleFlowCleaner } from "../conntrack/stale-flow-cleaner.ts";
import { udpFrontends } from "../conntrack/stale-flows.ts";
import { UdpServicePorts } from "../conntrack/udp-service-ports.ts";
import type { Nft } from "../kernel/nft.ts";
import type { ObjectSource, SourceHandlers } from "../kube/source.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { deltaSize } from "../nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../nft/transaction.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { BoundedFrequencyRunner, type SyncInterval } from "../sync/bounded-frequency-runner.ts";
import { ChangeTracker } from "../sync/change-tracker.ts";
import { DriftWatcher, type Expectation } from "../sync/drift-watcher.ts";
import { type HostView, nodeContextOf } from "../sync/node-context.ts";
import { PeriodicTask } from "../sync/periodic-task.ts";
import { Reconciler, type SyncReport } from "../sync/reconciler.ts";
import { HealthTracker } from "./health/health-tracker.ts";
import { healthCheckAddresses, type ServiceHealthServers } from "./health/service-health.ts";
import { ServiceHealthCounts } from "./health/service-health-counts.ts";
import { HeapKeeper } from "./heap-keeper.ts";
import type { Telemetry } from "./metrics/telemetry.ts";

/** What a daemon is made of. */
export interface DaemonParts {
  readonly options: ProxyOptions;
  readonly cache: ObjectCache;
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly host: HostView;
  /** Reads the host again: its addresses may change. */
  readonly readHost: () => Promise<HostView>;
  readonly makeSource: (handlers: SourceHandlers) => ObjectSource;
  readonly telemetry: Telemetry;
  readonly serviceHealth: ServiceHealthServers;
  readonly cleaner: StaleFlowCleaner;
  /** Applies nothing: nothing is ever as it should be, so nobody looks. */
  readonly dryRun: boolean;
  /** Our rules are in the kernel for the first time, and with them the modules that they need. */
  readonly onFirstSync: () => void;
  /** Gives back memory that nobody uses; blocks for some 0.1 s. */
  readonly compactHeap: () => void;
}

/** How often the tables and the chains are looked at, milliseconds. */
const TABLES_PERIOD = 500;
const CHAINS_PERIOD = 10_000;

/** Retries of a failed sync: soon at first, as the cause may be a passing one. */
const FIRST_RETRY = 500;
const MAX_RETRY = 30_000;

/** How long the kernel is not asked again about what it refused, milliseconds: each try costs a full sync. */
const QUARANTINE_RETRY = 300_000;

/** The service proxy at work: from objects to the kernel, until stopped. Stopping leaves the rules as they are. */
export class Daemon {
  readonly health: HealthTracker;
  readonly #parts: DaemonParts;
  readonly #feed: ChangeTracker;
  readonly #source: ObjectSource;
  readonly #reconciler: Reconciler;
  readonly #runner: BoundedFrequencyRunner;
  readonly #watcher: DriftWatcher;
  readonly #serviceHealthCounts: ServiceHealthCounts;
  readonly #udpServicePorts: UdpServicePorts;
  readonly #heap: HeapKeeper;
  readonly #periodic: PeriodicTask[] = [];
  #options: ProxyOptions;
  #host: HostView;
  #stopped = false;
  /** Undefined from the moment when something else is wanted until the kernel has it. */
  #expectation: Expectation | undefined;
  /** The addresses on which health check node ports answer, in one text. */
  #healthAddresses = "";
  #tidying: Promise<void> = Promise.resolve();
  #hasSynced = false;
  /** Since when something has been wanted that no sync has begun to bring, milliseconds. */
  #wantedSince: number | undefined;

  constructor(parts: DaemonParts) {
    const { cache, clock, nft, logger } = parts;
    this.#parts = parts;
    this.#options = parts.options;
    this.#host = parts.host;
    this.health = new HealthTracker(parts.host.families, clock.now(), "waiting for the first lists");
    this.#serviceHealthCounts = new ServiceHealthCounts(cache);
    this.#udpServicePorts = new UdpServicePorts(cache);
    this.#heap = new HeapKeeper(clock, parts.compactHeap);
    this.#reconciler = new Reconciler({ cache, nft, nodeContext: () => this.nodeContext() });
    this.#runner = new BoundedFrequencyRunner(clock, rhythm(this.#options), () => this.#sync());
    this.#feed = new ChangeTracker({
      cache,
      logger,
      onChange: () => this.#request(),
      onNode: (node) => this.health.nodeChanged(node),
    });
    this.#source = parts.makeSource(this.#feed.handlers());
    this.#watcher = new DriftWatcher({
      nft,
      clock,
      logger,
      expected: () => this.#expectation,
      onDrift: (what) => this.#onDrift(what),
      tablesPeriodMs: TABLES_PERIOD,
      chainsPeriodMs: CHAINS_PERIOD,
    });
  }

  /** Where the objects come from. */
  get source(): ObjectSource {
    return this.#source;
  }

  /** What is desired, and what is left out of it. */
  get reconciler(): Reconciler {
    return this.#reconciler;
  }

  /** What the rules depend on besides the objects, as it is now, for each family. */
  nodeContext(): NodeContext {
    return nodeContextOf(this.#options, this.#parts.cache, this.#host);
  }

  /** What came from the source so far. */
  get feed(): ChangeTracker {
    return this.#feed;
  }

  /** Begins to follow the source and to program the kernel. */
  start(): void {
    this.#source.start();
    this.#every(
      () => this.#options.syncPeriodMs,
      () => this.#maintain(),
    );
    this.#every(
      () => QUARANTINE_RETRY,
      async () => {
        if (this.#reconciler.retryQuarantined()) this.#request();
      },
    );
    if (this.#parts.dryRun) return;
    this.#watcher.start();
    this.#every(
      () => this.#options.fullResyncPeriodMs,
      async () => {
        this.#reconciler.requestFullSync("periodic");
        this.#request();
      },
    );
  }

  /** Stops everything; the rules stay. Resolves when nothing is under way any more. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#source.stop();
    this.#watcher.stop();
    this.#heap.stop();
    for (const task of this.#periodic) task.stop();
    await this.#runner.stop();
    await this.#parts.serviceHealth.close();
  }

  /** Takes over options that are safe to change while running (see config/reload.ts). */
  setOptions(options: ProxyOptions): void {
    this.#options = options;
    this.#runner.setSyncInterval(rhythm(options));
    for (const task of this.#periodic) task.periodChanged();
    void this.#maintain();
    this.#request();
  }

  /** The desired and the committed state and what stands between them, for support. */
  snapshot(): Record<string, unknown> {
    const { state, quarantined } = this.#reconciler;
    return {
      at: new Date(this.#parts.clock.now()).toISOString(),
      sources: this.#source.states(),
      health: this.health.snapshot(),
      quarantined: [...quarantined],
      conflicts: state.conflicts().map(({ frontend, winner, losers }) => {
        return { frontend, winner: winner.key, losers: losers.map(({ key }) => key) };
      }),
      pending: toTransaction(state.pending()),
      desired: rebuildTransaction(state.ruleset),
      committed: rebuildTransaction(state.committedRuleset()),
    };
  }

  #request(urgent = false): void {
    if (this.#stopped || this.#feed.waitingFor.length > 0) return;
    const now = this.#parts.clock.now();
    this.#wantedSince ??= now;
    this.#expectation = undefined;
    this.health.queued(now);
    this.#parts.telemetry.queued(now);
    this.#runner.request(urgent);
  }

  async #sync(): Promise<boolean> {
    const { clock, telemetry } = this.#parts;
    await this.#tidying;
    const startedAt = clock.now();
    this.#wantedSince = undefined;
    const triggers = this.#feed.takeTriggers();
    const isFull = this.#reconciler.isFullSyncDue;
    try {
      const report = await this.#reconciler.sync();
      const endedAt = clock.now();
      const wantedSince: number | undefined = this.#wantedSince;
      if (wantedSince === undefined) {
        this.#feed.synced();
        this.#expectation = { ruleset: this.#reconciler.state.ruleset };
      }
      this.health.synced(endedAt, wantedSince === undefined ? undefined : { wantedSince });
      telemetry.synced(report, { startedAt, endedAt }, triggers);
      this.#afterSync(report);
      return true;
    } catch (error) {
      this.#wantedSince ??= startedAt;
      this.#feed.returnTriggers(triggers);
      this.health.failed(clock.now(), messageOf(error));
      telemetry.failed(error, isFull);
      return false;
    }
  }

  #afterSync(report: SyncReport): void {
    if (!this.#hasSynced) this.#parts.onFirstSync();
    this.#hasSynced = true;
    this.#heap.synced(deltaSize(report.deltas).elements, report.kind === "full");
    this.#parts.telemetry.conflicts(this.#reconciler.state.conflicts());
    this.#parts.telemetry.excluded(this.#reconciler.quarantined);
    this.#syncServiceHealth(this.#serviceHealthCounts.update(report.rendered));
    if (this.#udpServicePorts.update(report.rendered) && !this.#parts.dryRun) {
      void this.#parts.cleaner.clean(udpFrontends(this.#udpServicePorts.ports()));
    }
  }

  #syncServiceHealth(servicesChanged: boolean): void {
    const addresses = healthCheckAddresses(this.nodeContext().map(({ nodePorts }) => nodePorts));
    if (!servicesChanged && addresses.join() === this.#healthAddresses) return;
    this.#healthAddresses = addresses.join();
    void this.#parts.serviceHealth.sync(new Map(this.#serviceHealthCounts.services), addresses);
  }

  #onDrift(what: string): void {
    this.#parts.logger.warn({ what }, "someone changed our rules, repairing");
    this.#reconciler.requestFullSync("drift");
    this.#request(true);
  }

  /** What is due from time to time: chains out of use, other addresses of the host. */
  async #maintain(): Promise<void> {
    try {
      this.#host = await this.#parts.readHost();
      if (!this.#parts.dryRun && this.#expectation !== undefined) await this.#tidy();
    } catch (error) {
      this.#parts.logger.warn({ error: messageOf(error) }, "maintenance failed, will try again");
    }
    if (this.#contextsChanged()) this.#request();
  }

  /** Syncs wait for it: the kernel must not change between what one reads and what it sends. */
  async #tidy(): Promise<void> {
    this.#tidying = this.#reconciler.tidy().catch((error) => this.#parts.telemetry.tidyFailed(error));
    await this.#tidying;
  }

  #contextsChanged(): boolean {
    return this.#reconciler.wouldChange(this.nodeContext());
  }

  #every(period: () => number, action: () => Promise<void>): void {
    this.#periodic.push(new PeriodicTask(this.#parts.clock, period, action));
  }
}

function rhythm({ minSyncPeriodMs }: ProxyOptions): SyncInterval {
  return { minPeriodMs: minSyncPeriodMs, firstRetryMs: FIRST_RETRY, maxRetryMs: MAX_RETRY };
}
