import { messageOf } from "../base/errors.ts";
import { FAMILIES, type Family } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { configurationOf } from "../config/configuration.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { SyncSubscriber } from "../sync/sync-report.ts";
import type { DaemonInput } from "./daemon-input.ts";
import { createReadings } from "./daemon-readings.ts";
import { daemonServers, metricsRoutes } from "./daemon-servers.ts";
import { daemonSocketRoutes } from "./daemon-socket.ts";
import { eventRecorder, NO_EVENTS } from "./events/event-recorder.ts";
import { nodeSubject, warning } from "./events/events.ts";
import { annotationEvents, syncEvents } from "./events/sync-events.ts";
import { isServed } from "./health/health.ts";
import { healthRoutes } from "./health/health-routes.ts";
import { heapKeeper } from "./heap-keeper.ts";
import { hostServices } from "./host-subscribers.ts";
import { Metrics } from "./metrics/metrics.ts";
import { changeTimer, createProxier } from "./proxier.ts";
import { createReports } from "./reports.ts";
import { serviceChangeLog } from "./service-change-log.ts";
import { statusPage } from "./status/status-page.ts";
import { syncLog } from "./sync-log.ts";
import { createUpkeep } from "./upkeep.ts";

/** Interval between two attempts while another process holds the lock, milliseconds. */
const LOCK_RETRY = 500;

/** A service proxy, with those of its parts that tests look at. */
export type Daemon = Awaited<ReturnType<typeof createDaemon>>;

/** Creates a daemon: each part before those that need it. @throws AppError HOST if the host cannot be read */
export async function createDaemon(input: DaemonInput) {
  const { system, logger, dryRun } = input;
  const { clock } = system;
  // A reload replaces the options, so every part that follows it reads them here each time.
  let current = input.options;
  const options = () => current;
  const host = await system.readHost();
  const { families } = host;
  warnWithoutClusterCIDR(current, logger);
  const metrics = new Metrics();
  metrics.observe("started", { version: input.version, ...input.hostVersions });
  const events = eventRecorder({
    send: dryRun ? NO_EVENTS : input.objects.sendEvent,
    clock,
    logger,
    instance: input.nodeName,
    onDropped: () => metrics.observe("eventDropped", undefined),
  });
  const proxier = createProxier(input, options, host, {
    onRequest: (outcome) => metrics.observe("apiRequest", outcome),
    onImplausible(resource) {
      const regarding = { kind: "Service", namespace: "default", name: "kubernetes", uid: "" } as const;
      const note = `the list of ${resource} lacks all known objects, even default/kubernetes; the rules are kept unless the API server repeats this list for a minute: check its database`;
      events.record({ ...warning(regarding, "ImplausibleList", "List", note), clusterKey: resource });
    },
  });
  const readings = createReadings(input, proxier, metrics, events);
  const reports = createReports(input, options, proxier, readings);
  const isFamilyServed = (family: Family) => isServed(reports.judge(), family);
  const { loopback, ...services } = hostServices(input, options, proxier, isFamilyServed, metrics, events);
  metrics.readFrom({ ...system, ...proxier, ...readings, ...reports, loopback });
  const upkeep = createUpkeep(input, options, proxier, services.addressesRead, (at) =>
    reports.history.verified(at),
  );
  const heap = heapKeeper(clock, system.compactHeap);
  const { cache, runner, reconciler } = proxier;
  const { health, history, timeline, configRead, snapshot } = reports;
  const subscribers: readonly SyncSubscriber[] = [
    // Before the history, which ends the time before the first sync.
    timeline,
    history,
    metrics.syncs(families),
    syncLog(logger, clock),
    serviceChangeLog(cache, clock, logger),
    syncEvents(cache, events),
    annotationEvents(cache, events),
    ...upkeep.subscribers,
    heap,
    // These change the kernel after a sync, or request that.
    ...(dryRun ? [] : services.subscribers),
    ...readings.features.map((feature): SyncSubscriber => ({ synced: (sync) => feature.synced?.(sync) })),
    ...(dryRun ? [] : [readings.affinity]),
    changeTimer(proxier.stateParts, clock, () => proxier.loop.request()),
  ];
  const routes = {
    healthz: healthRoutes(reports, clock, (path, status) =>
      metrics.observe("healthAnswer", { path, status }),
    ),
    metrics: metricsRoutes(
      input,
      clock,
      metrics.registry,
      reports.startedAt,
      () => configurationOf(current),
      async (query) => statusPage(await reports.status(upkeep.costlyTables()), query),
    ),
    socket: daemonSocketRoutes(input, proxier, upkeep.verifier, reports, readings.features),
  };
  // The reasons and the action are kube-proxy's.
  const action = "StartKubeProxy";
  const servers = daemonServers(current, routes, clock, logger, (server, error) => {
    const reason = server === "healthz" ? "FailedToStartProxierHealthcheck" : "FailedToStartMetricServer";
    events.record(warning(nodeSubject(cache), reason, action, messageOf(error)));
  });
  const begin = () => {
    events.record({ type: "Normal", reason: "Starting", action, note: "", regarding: nodeSubject(cache) });
    proxier.loop.start(subscribers);
    proxier.source.start();
    upkeep.start();
  };
  let isStopped = false;
  /** Begins once no other daemon runs in the network namespace: two would undo each other's rules. */
  const beginAlone = async () => {
    if (!(await system.lock.take())) {
      health.waitFor("another nft-proxy in this network namespace to end");
      const hint = "two of them would undo each other's rules: remove one, or wait until it ends";
      logger.warn({ hint }, "another nft-proxy runs in this network namespace: waiting");
      do {
        await new Promise<void>((resolve) => clock.after(LOCK_RETRY, resolve));
        if (isStopped) return;
      } while (!(await system.lock.take()));
      logger.info({}, "the other nft-proxy has ended: starting");
    }
    // `stop` had no lock to release.
    if (isStopped) return system.lock.release();
    health.waitFor(undefined);
    // A daemon before this one may have been killed while this one waited.
    system.endOrphans();
    // Settings come after every step that can fail, so that a failed start changes none, and before features
    // read them.
    await system.setUp(input.options, logger);
    if (!isStopped) begin();
  };
  /** Stops everything but leaves the rules. Resolves when the current sync has ended. Never rejects. */
  const stop = async (): Promise<void> => {
    isStopped = true;
    for (const part of [readings.affinity, ...readings.features, proxier.source, upkeep]) part.stop?.();
    const ended = proxier.loop.stop();
    input.nft.stopReading();
    await ended;
    heap.stop();
    system.lock.release();
    await Promise.all([...[...servers, services].map((one) => one.close()), events.stop()]);
  };
  /**
   * Opens the servers, which listen immediately. Then it begins to follow the source and to program the
   * kernel, when no other daemon does.
   * @throws AppError HOST with `bindAddressHardFail`, after everything is closed again
   */
  const start = async (): Promise<void> => {
    try {
      for (const server of servers) await server.start();
      if (dryRun) begin();
      else void beginAlone();
    } catch (error) {
      // Servers that listen would keep the process alive, and answer for a daemon that does nothing.
      await stop();
      throw error;
    }
  };
  return {
    cache,
    runner,
    reconciler,
    health,
    history,
    timeline,
    configRead,
    snapshot,
    /** The current options. */
    get options() {
      return current;
    },
    /** Applies options that are safe to change while running (see config/reload.ts). */
    setOptions: (next: ProxyOptions) => {
      current = next;
      upkeep.optionsChanged();
      proxier.loop.request();
    },
    start,
    stop,
  };
}

/** Without cluster CIDRs, connections from outside the cluster are not masqueraded. kube-proxy warns, too. */
function warnWithoutClusterCIDR({ detectLocal, clusterCIDRs }: ProxyOptions, logger: Logger): void {
  if (detectLocal.kind !== "cluster-cidr" || FAMILIES.some((family) => clusterCIDRs[family].length > 0))
    return;
  const hint = "set clusterCIDR or another detectLocalMode";
  logger.warn(
    { hint },
    "detectLocalMode is ClusterCIDR, but clusterCIDR is not set: traffic of pods is not recognised",
  );
}
