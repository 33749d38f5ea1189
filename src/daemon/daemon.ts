import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FAMILIES, type Family } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { staleFlowSubscriber } from "../conntrack/stale-flow-cleaner.ts";
import { UdpServicePorts } from "../conntrack/stale-flows.ts";
import { VANISHED_DELAY, VanishedEndpoints, vanishedTimer } from "../conntrack/vanished-endpoints.ts";
import type { Nft } from "../kernel/nft.ts";
import { readRefusals } from "../kernel/refused-set.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import type { ApiRequestObserver } from "../kube/client/client.ts";
import type { ServerAddress } from "../kube/client/server-addresses.ts";
import type { UnservedServices } from "../kube/decode/ignored-service.ts";
import type { ObjectSource, ResourceName, SourceHandlers } from "../kube/source.ts";
import { ObjectCache } from "../model/object-cache.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "../ruleset/loopback.ts";
import { REFUSAL_TIMEOUT } from "../ruleset/refusal-rules.ts";
import { REFUSED } from "../ruleset/sets.ts";
import { BoundedFrequencyRunner, type SyncInterval } from "../sync/bounded-frequency-runner.ts";
import { ChangeTracker } from "../sync/change-tracker.ts";
import { DriftRepair } from "../sync/drift-repair.ts";
import { KernelEvents } from "../sync/kernel-events.ts";
import { NodeContextReader } from "../sync/node-context.ts";
import { Reconciler } from "../sync/reconciler.ts";
import { SyncLoop } from "../sync/sync-loop.ts";
import type { SyncSubscriber } from "../sync/sync-report.ts";
import { Verifier } from "../sync/verifier.ts";
import { daemonServers } from "./daemon-servers.ts";
import { EventRecorder, type EventSink } from "./events/event-recorder.ts";
import {
  affinityCrowdedEvent,
  failedHealthPortEvent,
  failedLoopbackEvent,
  failedServerEvent,
  implausibleListEvent,
  nodeSubject,
  refusedEvent,
  serviceSubject,
  startingEvent,
} from "./events/events.ts";
import { portRangeEvents, schedulerEvents, syncEvents, unservedRangeEvents } from "./events/sync-events.ts";
import { FastPathDevices } from "./fast-path-devices.ts";
import { HealthTracker, isServed, judgeHealth } from "./health/health.ts";
import { ServiceHealthServers } from "./health/service-health.ts";
import { serviceHealthSubscriber } from "./health/service-health-counts.ts";
import { HeapKeeper } from "./heap-keeper.ts";
import { loopbackNodePorts, reservedPorts, staleFlowCleaner } from "./host-subscribers.ts";
import type { HostSystem } from "./host-system.ts";
import { LoopbackProxy } from "./loopback/loopback-proxy.ts";
import { Metrics } from "./metrics/metrics.ts";
import { waitForLock } from "./namespace-lock.ts";
import { AffinityPoller } from "./readings/affinity-poller.ts";
import { connectionCounts, resetPackets } from "./readings/connection-counts.ts";
import { RefusalPoller } from "./readings/refusal-poller.ts";
import { ServiceChangeLog } from "./service-change-log.ts";
import { stateSnapshot } from "./state-file.ts";
import { SyncHistory, SyncTimeline } from "./status/sync-history.ts";
import { SyncLog } from "./sync-log.ts";
import { Upkeep } from "./upkeep.ts";

/** What the command line decides about a daemon. */
export interface DaemonInput {
  readonly options: ProxyOptions;
  readonly nodeName: string;
  readonly version: string;
  readonly nft: Nft;
  /** Whether a commit is one of this nft's, by the port id of its socket; to be asked once. */
  readonly isOwnCommit: (portId: number) => boolean;
  readonly tables: TableReader;
  readonly system: HostSystem;
  readonly logger: Logger;
  readonly makeSource: (
    handlers: SourceHandlers,
    onImplausible: (resource: ResourceName) => void,
  ) => ObjectSource;
  /** Sets the observer of requests to the API server. */
  readonly observeRequests: (observer: ApiRequestObserver) => void;
  /** The API servers that the source connects to. */
  readonly apiServers: () => readonly ServerAddress[];
  /** Where Events go: the API server, or nowhere. */
  readonly eventSink: EventSink;
  readonly dryRun: boolean;
  /** The flags that were given, by name, for /flagz. */
  readonly flags: ReadonlyMap<string, string>;
  /** The newest lines of the log, for the daemon socket. */
  readonly recentLog: () => readonly string[];
  /** Asks for the Services that the source excludes. Never rejects. */
  readonly unservedServices: () => Promise<UnservedServices>;
  /** Our rules are in the kernel for the first time, and with them the modules that they need. */
  readonly onFirstSync: () => void;
}

/** Retries of a failed sync, milliseconds: soon at first, as the cause may be transient. */
const FIRST_RETRY = 500;
const MAX_RETRY = 30_000;

/** From the first sync until the affinity maps are looked at, milliseconds: a start has enough to do. */
const AFFINITY_DELAY = 5000;

/** Unhealthy is a kernel that has not been brought up to date for this many sync periods, as in kube-proxy. */
const UNHEALTHY_AFTER_PERIODS = 2;

/** A service proxy; its parts that can be looked at are here for tests. */
export interface Daemon {
  readonly cache: ObjectCache;
  readonly runner: BoundedFrequencyRunner;
  readonly reconciler: Reconciler;
  readonly health: HealthTracker;
  readonly history: SyncHistory;
  readonly timeline: SyncTimeline;
  /** The options in force. */
  readonly options: ProxyOptions;
  /** Takes over options that are safe to change while running (see config/reload.ts). */
  setOptions(next: ProxyOptions): void;
  /** The desired state, the committed state and the transaction between them, for support. */
  snapshot(): Record<string, unknown>;
  /**
   * Opens the servers, follows the source and programs the kernel.
   * @throws AppError HOST with `bindAddressHardFail`, when everything is closed again
   */
  start(): Promise<void>;
  /** Stops everything and leaves the rules. Resolves when the current sync has ended. Never rejects. */
  stop(): Promise<void>;
}

/** Puts a daemon together, each part before those that need it. @throws AppError HOST when the host cannot be read */
export async function createDaemon(input: DaemonInput): Promise<Daemon> {
  const { nodeName, version, nft, system, logger, dryRun } = input;
  const { clock } = system;
  const startedAt = clock.now();
  // Whatever follows a reload of the configuration reads the options here each time it needs them.
  let current = input.options;
  const options = () => current;
  const cache = new ObjectCache(nodeName, current);
  const metrics = new Metrics(version);
  input.observeRequests((outcome) => metrics.observe("apiRequest", outcome));
  const onDropped = () => metrics.observe("eventDropped", undefined);
  const events = new EventRecorder({ sink: input.eventSink, clock, logger, instance: nodeName, onDropped });

  const host = await system.readHost(current);
  const { families } = host;
  const readHost = () => system.readHost(current);
  const nodeContext = new NodeContextReader({ options, cache, host, apiServers: input.apiServers, readHost });
  const runner = new BoundedFrequencyRunner(clock, syncInterval(current));
  const awaitsPodCIDRs = current.detectLocal.kind === "node-cidr";
  const tracker = new ChangeTracker({
    cache,
    clock,
    logger,
    onChange: () => runner.request(),
    awaitsPodCIDRs,
  });
  warnWithoutClusterCIDR(current, logger);
  const source = input.makeSource(tracker.handlers(), (resource) =>
    events.record(implausibleListEvent(resource)),
  );
  const vanished = current.resetVanished
    ? new VanishedEndpoints({ cache, now: clock.now, delayMs: VANISHED_DELAY })
    : undefined;
  const { tables } = input;
  const reconciler = new Reconciler({ cache, nft, tables, vanished });

  const health = new HealthTracker({ families, clock, runner, tracker, cache });
  const judge = () =>
    judgeHealth(health.snapshot(), clock.now(), UNHEALTHY_AFTER_PERIODS * current.syncPeriodMs);
  const serviceHealth = new ServiceHealthServers({
    isProxyHealthy: (family) => isServed(judge(), family),
    clock,
    logger,
    onFailure: (service, port, error) =>
      events.record(failedHealthPortEvent(serviceSubject(cache, service), port, nodeName, messageOf(error))),
  });
  const loopback = loopbackProxy(cache, events, metrics, clock, logger);

  const history = new SyncHistory();
  const timeline = new SyncTimeline(health);
  const kernelEvents = new KernelEvents({
    listen: system.listenToKernel,
    isOwnCommit: input.isOwnCommit,
    clock,
    logger,
    onCommit: (commit) => void repair.committed(commit),
    onBegun: () => verifier.compareNow(),
  });
  const verifier = new Verifier({
    tables,
    events: kernelEvents,
    clock,
    logger,
    reconciler,
    maxPeriodMs: () => current.fullResyncPeriodMs,
    onVerified: (at) => history.verified(at),
  });
  const heap = new HeapKeeper(clock, system.compactHeap);
  const fastPath =
    current.fastPath && !dryRun
      ? new FastPathDevices({
          nft,
          clock,
          logger,
          interfaces: system.interfaces(current.fastPathInterfaces),
          expected: () => loop.expected,
        })
      : undefined;
  const udpPorts = new UdpServicePorts(cache);
  // Subscribers that change the host, or listen on ports of Services.
  const hostSubscribers: SyncSubscriber[] = [
    serviceHealthSubscriber(cache, serviceHealth),
    staleFlowSubscriber(
      udpPorts,
      staleFlowCleaner(udpPorts, reconciler, nodeContext, metrics, system, logger),
    ),
    loopbackNodePorts(loopback),
    reservedPorts(() => current.reserveNodePorts, system.reservedPorts, clock, logger),
  ];
  const subscribers: SyncSubscriber[] = [
    // Before the health tracker, which ends the time before the first sync.
    timeline,
    health,
    metrics.syncs(families),
    new SyncLog(logger, clock),
    new ServiceChangeLog(cache, clock, logger),
    syncEvents(cache, events),
    schedulerEvents(cache, events),
    portRangeEvents(cache, events),
    unservedRangeEvents(cache, events, system.localAddresses),
    history,
    verifier,
    heap,
    ...(dryRun ? [] : hostSubscribers),
    ...(fastPath === undefined ? [] : [fastPath]),
    { synced: () => affinity.synced() },
    ...(vanished === undefined ? [] : [vanishedTimer(vanished, clock, () => loop.request())]),
    firstSync(() => {
      input.onFirstSync();
      if (dryRun) return;
      clock.after(AFFINITY_DELAY, () => affinity.start());
    }),
  ];
  const loop = new SyncLoop({ clock, logger, tracker, runner, reconciler, nodeContext, subscribers });
  const repair = new DriftRepair({ clock, logger, loop, verifier, reconciler });
  const upkeep = new Upkeep({
    options,
    nft,
    clock,
    logger,
    nodeContext,
    loop,
    verifier,
    events: kernelEvents,
    repair,
    dryRun,
  });

  const affinity = new AffinityPoller({
    clock,
    logger,
    tables,
    nft,
    loop,
    state: () => reconciler.state,
    onDeleted: (reason, entries) => metrics.observe("affinityDeleted", { reason, entries }),
    onCrowded: ({ service, name }) =>
      events.record(affinityCrowdedEvent(serviceSubject(cache, service.name), name, nodeName)),
  });

  const isRefusalLogged = !dryRun && current.refusalLogSize > 0;
  const refusals = isRefusalLogged
    ? refusalPoller(input, families, reconciler, cache, events, metrics)
    : undefined;
  const isCounting = current.serviceCounters !== "off";
  const counts = isCounting ? connectionCounts(tables, () => reconciler.state, clock, logger) : undefined;
  const resets = vanished === undefined ? undefined : resetPackets(tables, families, clock, logger);
  metrics.readFrom({
    reconciler,
    tracker,
    runner,
    health,
    history,
    source,
    conntrack: system.conntrack,
    memory: system.memory,
    connectionCounts: counts,
    resetPackets: resets,
    affinityEntries: () => affinity.entries,
    fastPath,
  });
  const servers = daemonServers({
    version,
    startedAt,
    dryRun,
    options,
    clock,
    logger,
    flags: input.flags,
    netNamespace: system.netNamespace(),
    recentLog: input.recentLog,
    unservedServices: input.unservedServices,
    cache,
    nodeContext,
    reconciler,
    loop,
    verifier,
    nft,
    source,
    health,
    judge,
    history,
    timeline,
    metrics,
    vanished,
    refusals,
    connectionCounts: counts,
    resetPackets: resets,
    fastPath,
    costlyTables: () => upkeep.costlyTables,
    onFailure: (server, error) =>
      events.record(failedServerEvent(nodeSubject(cache), server, messageOf(error))),
  });

  let isStopped = false;
  const begin = () => {
    health.waitFor(undefined);
    // Of a daemon before this one, which may have been killed while this one waited.
    if (!dryRun) system.endOrphans();
    events.record(startingEvent(nodeSubject(cache)));
    loop.start();
    source.start();
    upkeep.start();
    fastPath?.start();
    refusals?.start();
  };
  const start = async () => {
    for (const server of servers) await server.start();
    if (dryRun) return begin();
    const onWaiting = () => health.waitFor("another nft-proxy in this network namespace to end");
    const turn = waitForLock(system.lock, clock, logger, onWaiting, () => isStopped);
    void turn.then((isOurs) => (isOurs && !isStopped ? begin() : undefined));
  };
  const stop = async () => {
    isStopped = true;
    refusals?.stop();
    affinity.stop();
    source.stop();
    upkeep.stop();
    fastPath?.stop();
    const ended = loop.stop();
    nft.stopReading();
    await ended;
    heap.stop();
    system.lock.release();
    const closing = [...servers, serviceHealth, loopback].map((server) => server.close());
    await Promise.all([...closing, events.stop()]);
  };
  return {
    cache,
    runner,
    reconciler,
    health,
    history,
    timeline,
    get options() {
      return current;
    },
    setOptions: (next) => {
      current = next;
      runner.setInterval(syncInterval(next));
      upkeep.optionsChanged();
      loop.request();
    },
    snapshot: () => ({
      at: new Date(clock.now()).toISOString(),
      sources: source.states(),
      health: health.snapshot(),
      ...stateSnapshot(reconciler),
    }),
    start: async () => {
      try {
        await start();
      } catch (error) {
        // Servers that do listen would keep the process alive, and answer for a daemon that does nothing.
        await stop();
        throw error;
      }
    },
    stop,
  };
}

/** The interval between syncs that the options ask for; adaptive when they leave it open. */
function syncInterval({ minSyncPeriodMs }: ProxyOptions): SyncInterval {
  return {
    minPeriodMs: minSyncPeriodMs === 0 ? "adaptive" : minSyncPeriodMs,
    firstRetryMs: FIRST_RETRY,
    maxRetryMs: MAX_RETRY,
  };
}

/** Without cluster CIDRs, nothing can be masqueraded for coming from outside the cluster: kube-proxy warns, too. */
function warnWithoutClusterCIDR({ detectLocal, clusterCIDRs }: ProxyOptions, logger: Logger): void {
  if (detectLocal.kind !== "cluster-cidr" || FAMILIES.some((family) => clusterCIDRs[family].length > 0))
    return;
  const hint = "set clusterCIDR, or another detectLocalMode";
  logger.warn(
    { hint },
    "detectLocalMode is ClusterCIDR, but there is no clusterCIDR: pod traffic is not told apart",
  );
}

function loopbackProxy(
  cache: ObjectCache,
  events: EventRecorder,
  metrics: Metrics,
  clock: Clock,
  logger: Logger,
): LoopbackProxy {
  return new LoopbackProxy({
    addresses: { ip: "127.0.0.1", ip6: "::1" },
    targets: LOOPBACK_NODEPORT_ADDRESSES,
    clock,
    logger,
    observer: {
      changed: (listeners, connections) => metrics.observe("loopbackChanged", { listeners, connections }),
      bindFailed: ({ family, port, service }, error) => {
        metrics.observe("loopbackBindFailed", { family });
        const subject = serviceSubject(cache, service);
        events.record(failedLoopbackEvent(subject, port, cache.node.name, messageOf(error)));
      },
      refused: (_, reason) => metrics.observe("loopbackRefused", { reason }),
    },
  });
}

/** Watches what the rules refuse. */
function refusalPoller(
  { system, logger, nodeName, tables }: DaemonInput,
  families: readonly Family[],
  reconciler: Reconciler,
  cache: ObjectCache,
  events: EventRecorder,
  metrics: Metrics,
): RefusalPoller {
  return new RefusalPoller({
    clock: system.clock,
    logger,
    read: async () =>
      (await readRefusals(tables, families, { set: REFUSED, timeout: REFUSAL_TIMEOUT })) ?? [],
    state: () => reconciler.state,
    onPackets: (service, reason, packets) => metrics.observe("packetsRefused", { service, reason, packets }),
    onRefused: (service, summary) =>
      events.record(refusedEvent(serviceSubject(cache, service), nodeName, summary)),
  });
}

function firstSync(onFirstSync: () => void): SyncSubscriber {
  let isFirst = true;
  return {
    synced() {
      if (isFirst) onFirstSync();
      isFirst = false;
    },
  };
}
