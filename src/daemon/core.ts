import { StaleFlowCleaner } from "../conntrack/stale-flow-cleaner.ts";
import { nodePortHosts, UdpServicePorts, udpFrontends } from "../conntrack/stale-flows.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "../ruleset/loopback.ts";
import { SyncLoop } from "../sync/sync-loop.ts";
import type { SyncSubscriber } from "../sync/sync-report.ts";
import { vanishedTimer } from "../sync/vanished-endpoints.ts";
import { Verifier } from "../sync/verifier.ts";
import { assembleState, type CoreParts, type CoreState } from "./core-state.ts";
import { Daemon } from "./daemon.ts";
import { SchedulerEvents } from "./events/scheduler-events.ts";
import { SyncEvents } from "./events/sync-events.ts";
import { isServed } from "./health/health.ts";
import { ServiceHealthServers } from "./health/service-health.ts";
import { ServiceHealthSubscriber } from "./health/service-health-subscriber.ts";
import { HeapKeeper } from "./heap-keeper.ts";
import { connectionCounts, refusalWatch, resetPacketCounts } from "./kernel-readings.ts";
import { LoopbackProxy } from "./loopback/loopback-proxy.ts";
import { LoopbackSubscriber } from "./loopback/loopback-subscriber.ts";
import { loopbackObserver } from "./metrics/loopback-metrics.ts";
import { countCleaning, SyncMetrics } from "./metrics/sync-metrics.ts";
import { ReservedPortsSubscriber } from "./reserved-ports-subscriber.ts";
import { ServiceChangeLog } from "./service-change-log.ts";
import { StaleFlowSubscriber } from "./stale-flow-subscriber.ts";
import { SyncHistory } from "./status/sync-history.ts";
import { SyncTimeline } from "./status/sync-timeline.ts";
import { SyncLog } from "./sync-log.ts";

/** A daemon without its servers. */
export type DaemonCore = Awaited<ReturnType<typeof assembleCore>>;

/** Reads the host's addresses of both families, whatever the options. */
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
    new SyncLog(logger, clock),
    new ServiceChangeLog(cache, clock, logger),
    new SyncEvents(state.events),
    new SchedulerEvents(cache, state.events),
    history,
    verifier,
    heap,
    ...(dryRun ? [] : hostSubscribers(parts, state, { serviceHealth, loopback })),
    ...(state.vanished === undefined ? [] : [vanishedTimer(state.vanished, clock, () => loop.request())]),
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

/** Those that change the host, or listen on ports of Services. */
function hostSubscribers(
  parts: CoreParts,
  state: CoreState,
  { serviceHealth, loopback }: { readonly serviceHealth: ServiceHealthServers; readonly loopback: LoopbackProxy },
): SyncSubscriber[] {
  return [
    new ServiceHealthSubscriber(state.cache, serviceHealth),
    staleFlows(parts, state),
    new LoopbackSubscriber(loopback),
    reservedPorts(parts, state),
  ];
}

function serviceHealthServers({ logger }: CoreParts, { clock, judge, events }: CoreState): ServiceHealthServers {
  return new ServiceHealthServers({
    isProxyHealthy: (family) => isServed(judge(), family),
    clock,
    logger,
    onFailure: (service, port, error) => events.healthPortFailed(service, port, error),
  });
}

function reservedPorts({ system, logger }: CoreParts, { options, clock }: CoreState): ReservedPortsSubscriber {
  const isWanted = (): boolean => options.value.reserveNodePorts;
  return new ReservedPortsSubscriber({ isWanted, files: system.reservedPorts, logger, clock });
}

function loopbackProxy({ logger }: CoreParts, { clock, metrics, events }: CoreState): LoopbackProxy {
  return new LoopbackProxy({
    addresses: { ip: "127.0.0.1", ip6: "::1" },
    targets: LOOPBACK_NODEPORT_ADDRESSES,
    clock,
    logger,
    observer: loopbackObserver(metrics, events),
    maxConnections: MOST_LOOPBACK_CONNECTIONS,
  });
}

function staleFlows({ system, logger }: CoreParts, { cache, metrics, nodeContext }: CoreState): StaleFlowSubscriber {
  const ports = new UdpServicePorts(cache);
  const cleaner = new StaleFlowCleaner({
    table: system.flows,
    frontends: () => udpFrontends(ports.ports()),
    nodePortHosts: () =>
      nodePortHosts(nodeContext.current(), async () => (await system.readHost(ALL_ADDRESSES)).addresses),
    clock: system.clock,
    logger,
    onCleaned: (report) => countCleaning(metrics, report),
  });
  return new StaleFlowSubscriber(ports, cleaner);
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
