import { messageOf } from "../base/errors.ts";
import { FAMILIES } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { StaleFlowCleaner } from "../conntrack/stale-flow-cleaner.ts";
import { udpFrontends } from "../conntrack/stale-flows.ts";
import { UdpServicePorts } from "../conntrack/udp-service-ports.ts";
import type { Nft } from "../kernel/nft.ts";
import { readRefusals } from "../kernel/refusals.ts";
import { readResetPackets } from "../kernel/vanished.ts";
import type { ApiRequestObserver } from "../kube/client/client.ts";
import type { ObjectSource, SourceHandlers } from "../kube/source.ts";
import { ObjectCache } from "../model/object-cache.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "../ruleset/loopback.ts";
import { REFUSAL_TIMEOUT } from "../ruleset/refusals.ts";
import { REFUSED } from "../ruleset/sets.ts";
import { BoundedFrequencyRunner } from "../sync/bounded-frequency-runner.ts";
import { ChangeTracker } from "../sync/change-tracker.ts";
import { CurrentOptions } from "../sync/current-options.ts";
import { NodeContextReader } from "../sync/node-context-reader.ts";
import { Reconciler } from "../sync/reconciler.ts";
import { SyncLoop } from "../sync/sync-loop.ts";
import type { SyncSubscriber } from "../sync/sync-report.ts";
import { VANISHED_DELAY, VanishedEndpoints } from "../sync/vanished-endpoints.ts";
import { VanishedTimer } from "../sync/vanished-timer.ts";
import { Verifier } from "../sync/verifier.ts";
import { Daemon, syncInterval } from "./daemon.ts";
import { EventChannel } from "./events/event-channel.ts";
import type { EventSink } from "./events/event-recorder.ts";
import { SchedulerEvents } from "./events/scheduler-events.ts";
import { SyncEvents } from "./events/sync-events.ts";
import { type HealthReport, isServed, judgeHealth } from "./health/health.ts";
import { HealthTracker } from "./health/health-tracker.ts";
import { ServiceHealthServers } from "./health/service-health.ts";
import { ServiceHealthSubscriber } from "./health/service-health-subscriber.ts";
import { HeapKeeper } from "./heap-keeper.ts";
import type { HostSystem } from "./host-system.ts";
import { LoopbackProxy } from "./loopback/loopback-proxy.ts";
import { LoopbackSubscriber } from "./loopback/loopback-subscriber.ts";
import { readConnectionCounts } from "./metrics/connection-counts.ts";
import { addConnectionMetrics } from "./metrics/connection-metrics.ts";
import { addConntrackMetrics } from "./metrics/conntrack-metrics.ts";
import { loopbackObserver } from "./metrics/loopback-metrics.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { countRequest } from "./metrics/rest-client-metrics.ts";
import { addSourceMetrics } from "./metrics/source-metrics.ts";
import { countCleaning, SyncMetrics } from "./metrics/sync-metrics.ts";
import { addVanishedMetrics } from "./metrics/vanished-metrics.ts";
import { RefusalWatch } from "./refusals/refusal-watch.ts";
import { ReservedPortsSubscriber } from "./reserved-ports-subscriber.ts";
import { ServiceChangeLog } from "./service-change-log.ts";
import { StaleFlowSubscriber } from "./stale-flow-subscriber.ts";
import { SyncHistory } from "./status/sync-history.ts";
import { SyncTimeline } from "./status/sync-timeline.ts";
import { SyncLog } from "./sync-log.ts";

/** What the command line decides about a daemon. */
export interface CoreParts {
  readonly options: ProxyOptions;
  readonly nodeName: string;
  readonly version: string;
  readonly nft: Nft;
  readonly system: HostSystem;
  readonly logger: Logger;
  readonly makeSource: (handlers: SourceHandlers) => ObjectSource;
  /** Sets the observer of requests to the API server. */
  readonly observeRequests: (observer: ApiRequestObserver) => void;
  /** Where Events go: the API server, or nowhere. */
  readonly eventSink: EventSink;
  readonly dryRun: boolean;
  /** Our rules are in the kernel for the first time, and with them the modules that they need. */
  readonly onFirstSync: () => void;
}

/** A daemon without its servers. */
export type DaemonCore = Awaited<ReturnType<typeof assembleCore>>;

/** How long a reading of the connection counters stays valid, milliseconds. */
const COUNTERS_MAX_AGE = 5000;

/** Unhealthy is a kernel that has not been brought up to date for this many sync periods, as in kube-proxy. */
const UNHEALTHY_AFTER_PERIODS = 2;

/** Selects the host's addresses of both families, whatever the options. */
const ALL_ADDRESSES = {
  nodePortAddresses: {
    primary: false,
    localhost: { ip: false, ip6: false },
    cidrs: { ip: ["0.0.0.0/0"], ip6: ["::/0"] },
  },
};

/** Most connections to loopback NodePorts at a time: each takes two sockets and up to 0.1 MB. */
const MOST_LOOPBACK_CONNECTIONS = 4096;

/** Puts a daemon together, each part before those that need it. @throws AppError HOST when the host cannot be read */
export async function assembleCore(parts: CoreParts) {
  const { nft, logger, dryRun, system } = parts;
  const { clock } = system;
  const state = await assembleState(parts);
  const { options, cache, metrics, runner, tracker, nodeContext, reconciler, source } = state;
  const serviceHealth = serviceHealthServers(parts, state);
  const loopback = loopbackProxy(parts, state);
  const history = new SyncHistory();
  const timeline = new SyncTimeline(state.health);
  const verifier = new Verifier({
    nft,
    clock,
    logger,
    reconciler,
    maxPeriodMs: () => options.value.fullResyncPeriodMs,
    onVerified: (at) => history.verified(at),
  });
  const heap = new HeapKeeper(clock, system.compactHeap);
  const subscribers: SyncSubscriber[] = [
    // Before the health tracker, which ends the time before the first sync.
    timeline,
    state.health,
    new SyncMetrics(metrics, state.families),
    new SyncLog(logger),
    new ServiceChangeLog(cache, clock, logger),
    new SyncEvents(state.events),
    new SchedulerEvents(cache, state.events),
    history,
    verifier,
    heap,
    ...(dryRun ? [] : hostSubscribers(parts, state, { serviceHealth, loopback })),
    ...(state.vanished === undefined ? [] : [new VanishedTimer(state.vanished, clock, () => loop.request())]),
    firstSync(parts.onFirstSync),
  ];
  const loop = new SyncLoop({ clock, logger, tracker, runner, reconciler, nodeContext, subscribers });
  const refusals = refusalWatch(parts, state);
  const daemon = new Daemon({ options, nft, clock, logger, source, nodeContext, runner, loop, verifier, dryRun });
  return {
    ...state,
    serviceHealth,
    loopback,
    history,
    timeline,
    heap,
    refusals,
    daemon,
    counts: connectionCounts(parts, state),
    resets: resetPacketCounts(parts, state),
  };
}

type State = Awaited<ReturnType<typeof assembleState>>;

/** The state of a daemon: objects, options, changes, desired rules, health. */
async function assembleState({ options: initial, nodeName, version, nft, system, logger, ...parts }: CoreParts) {
  const { clock } = system;
  const startedAt = clock.now();
  const options = new CurrentOptions(initial);
  const cache = new ObjectCache(nodeName, initial);
  const metrics = createMetrics(version);
  parts.observeRequests((outcome) => countRequest(metrics.restClient, outcome));
  const events = new EventChannel({ sink: parts.eventSink, clock, logger, metrics, cache });
  const host = await system.readHost(initial);
  const readHost = () => system.readHost(options.value);
  const nodeContext = new NodeContextReader({ options, cache, host, readHost });
  const runner = new BoundedFrequencyRunner(clock, syncInterval(initial));
  const tracker = new ChangeTracker({
    cache,
    clock,
    logger,
    onChange: () => runner.request(),
    awaitsPodCIDRs: initial.detectLocal.kind === "node-cidr",
  });
  warnWithoutClusterCIDR(initial, logger);
  const source = parts.makeSource(tracker.handlers());
  addSourceMetrics(metrics.registry, source);
  addConntrackMetrics(metrics.registry, system.conntrack);
  const vanished = initial.resetVanished
    ? new VanishedEndpoints({ cache, now: clock.now, delayMs: VANISHED_DELAY })
    : undefined;
  const reconciler = new Reconciler({ cache, nft, vanished });
  const { families } = host;
  const health = new HealthTracker({ families, startedAt, runner, tracker, cache });
  const judge = (): HealthReport =>
    judgeHealth(health.snapshot(), clock.now(), UNHEALTHY_AFTER_PERIODS * options.value.syncPeriodMs);
  return {
    ...{
      clock,
      startedAt,
      options,
      cache,
      metrics,
      events,
      nodeContext,
      runner,
      tracker,
      source,
      reconciler,
      vanished,
    },
    ...{ families, health, judge },
  };
}

/** Those that change the host, or listen on ports of Services. */
function hostSubscribers(
  parts: CoreParts,
  state: State,
  { serviceHealth, loopback }: { readonly serviceHealth: ServiceHealthServers; readonly loopback: LoopbackProxy },
): SyncSubscriber[] {
  return [
    new ServiceHealthSubscriber(state.cache, serviceHealth),
    staleFlows(parts, state),
    new LoopbackSubscriber(loopback),
    reservedPorts(parts, state),
  ];
}

function serviceHealthServers({ logger }: CoreParts, { clock, judge, events }: State): ServiceHealthServers {
  return new ServiceHealthServers({
    isProxyHealthy: (family) => isServed(judge(), family),
    clock,
    logger,
    onFailure: (service, port, error) => events.healthPortFailed(service, port, error),
  });
}

function reservedPorts({ system, logger }: CoreParts, { options }: State): ReservedPortsSubscriber {
  const isWanted = (): boolean => options.value.reserveNodePorts;
  return new ReservedPortsSubscriber({ isWanted, files: system.reservedPorts, logger });
}

function loopbackProxy({ logger }: CoreParts, { clock, metrics, events }: State): LoopbackProxy {
  return new LoopbackProxy({
    addresses: { ip: "127.0.0.1", ip6: "::1" },
    targets: LOOPBACK_NODEPORT_ADDRESSES,
    clock,
    logger,
    observer: loopbackObserver(metrics, events),
    maxConnections: MOST_LOOPBACK_CONNECTIONS,
  });
}

/** Without cluster CIDRs, nothing can be masqueraded for coming from outside the cluster: kube-proxy warns, too. */
function warnWithoutClusterCIDR({ detectLocal, clusterCIDRs }: ProxyOptions, logger: Logger): void {
  if (detectLocal.kind !== "cluster-cidr" || FAMILIES.some((family) => clusterCIDRs[family].length > 0)) return;
  const hint = "set clusterCIDR, or another detectLocalMode";
  logger.warn({ hint }, "detectLocalMode is ClusterCIDR, but there is no clusterCIDR: pod traffic is not told apart");
}

function staleFlows({ system, logger }: CoreParts, { cache, metrics }: State): StaleFlowSubscriber {
  const ports = new UdpServicePorts(cache);
  const cleaner = new StaleFlowCleaner({
    table: system.flows,
    frontends: () => udpFrontends(ports.ports()),
    nodeAddresses: async () => new Set(Object.values((await system.readHost(ALL_ADDRESSES)).addresses).flat()),
    clock: system.clock,
    logger,
    onCleaned: (report) => countCleaning(metrics, report),
  });
  return new StaleFlowSubscriber(ports, cleaner);
}

/** @returns the counts of connections, undefined where these are not counted */
function connectionCounts({ nft, system, logger }: CoreParts, { options, metrics, reconciler }: State) {
  if (options.value.serviceCounters === "off") return undefined;
  return addConnectionMetrics(metrics.registry, {
    read: () => readConnectionCounts(nft, reconciler.state),
    now: system.clock.monotonic,
    maxAge: COUNTERS_MAX_AGE,
    onError: (error) => logger.warn({ error: messageOf(error) }, "cannot read the connection counters (logged once)"),
  });
}

/** @returns the packets that were reset, undefined where none are */
function resetPacketCounts({ nft, system, logger }: CoreParts, { metrics, families, vanished }: State) {
  if (vanished === undefined) return undefined;
  return addVanishedMetrics(metrics.registry, {
    read: async () =>
      Object.fromEntries(
        await Promise.all(families.map(async (family) => [family, await readResetPackets(nft, family)])),
      ),
    now: system.clock.monotonic,
    maxAge: COUNTERS_MAX_AGE,
    onError: (error) => logger.warn({ error: messageOf(error) }, "cannot read the count of resets (logged once)"),
  });
}

/** @returns undefined where refusals are not recorded */
function refusalWatch({ nft, logger, dryRun }: CoreParts, state: State): RefusalWatch | undefined {
  const { clock, options, metrics, events, reconciler, families } = state;
  if (dryRun || options.value.refusalLogSize === 0) return undefined;
  return new RefusalWatch({
    clock,
    logger,
    read: async () => (await readRefusals(nft, families, { set: REFUSED, timeout: REFUSAL_TIMEOUT })) ?? [],
    state: () => reconciler.state,
    onPackets: (name, reason, packets) => {
      const [namespace = "", service = ""] = name.split("/");
      metrics.own.refusedPackets.inc({ namespace, service, reason }, packets);
    },
    onRefused: (service, summary) => events.refused(service, summary),
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
