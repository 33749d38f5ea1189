import { randomUUID } from "node:crypto";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { ListenAddress, ProxyOptions } from "../config/options.ts";
import { configurationOf } from "../config/print.ts";
import { Conntrack } from "../kernel/conntrack.ts";
import { hostFiles } from "../kernel/host.ts";
import type { Nft } from "../kernel/nft.ts";
import type { ObjectSource, SourceHandlers } from "../kube/source.ts";
import { FAMILIES } from "../model/family.ts";
import { World } from "../model/world.ts";
import { readConnectionCounts } from "./connection-counts.ts";
import { Daemon, type DaemonParts, uidOf } from "./daemon.ts";
import { EventRecorder, type EventSink } from "./event-recorder.ts";
import { type EventSubject, failedHealthPortEvent, failedServerEvent, startingEvent } from "./events.ts";
import { judgeHealth } from "./health.ts";
import { healthRoutes } from "./health-routes.ts";
import { readHostView } from "./host-view.ts";
import type { FindRoute } from "./http-answers.ts";
import { listenAddress } from "./http-servers.ts";
import { KeptServer } from "./kept-server.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { addConnectionMetrics } from "./metrics-connections.ts";
import { IP_FAMILY } from "./metrics-kube-proxy.ts";
import { metricsRoutes } from "./metrics-routes.ts";
import { addSourceMetrics } from "./metrics-sources.ts";
import { ServiceHealthServers } from "./service-health.ts";
import { StaleFlowCleaner } from "./stale-flow-cleaner.ts";
import { systemClock } from "./system-clock.ts";
import { Telemetry } from "./telemetry.ts";

/** What the command line decides about a daemon. */
export interface AssemblyParts {
  readonly options: ProxyOptions;
  readonly nodeName: string;
  readonly version: string;
  readonly nft: Nft;
  readonly logger: Logger;
  readonly makeSource: (handlers: SourceHandlers) => ObjectSource;
  /** Where Events go: the API server, or nowhere. */
  readonly eventSink: EventSink;
  /** The flags that were given, by name, for /flagz. */
  readonly flags: ReadonlyMap<string, string>;
  readonly dryRun: boolean;
  readonly onFirstSync: DaemonParts["onFirstSync"];
}

/** A daemon with its servers. */
export interface AssembledDaemon {
  readonly daemon: Daemon;
  /** Takes over options that are safe to change while running. */
  setOptions(options: ProxyOptions): void;
  /** Listens, follows and programs. @throws AppError HOST with `bindAddressHardFail` */
  start(): Promise<void>;
  /** Stops everything and leaves the rules. Never rejects. */
  stop(): Promise<void>;
}

/** How long a reading of the connection counters is good for, milliseconds. */
const COUNTERS_MAX_AGE = 5000;

/** Unhealthy is a kernel that has not been brought up to date for this many sync periods: kube-proxy's measure. */
const UNHEALTHY_AFTER_PERIODS = 2;

/** Puts a daemon together from its parts. */
export async function assembleDaemon(parts: AssemblyParts): Promise<AssembledDaemon> {
  const { nodeName, version, nft, logger, makeSource, dryRun } = parts;
  const clock = systemClock;
  const startedAt = clock.now();
  let options = parts.options;
  const world = new World(nodeName);
  const metrics = createMetrics(version, {
    cpu: () => process.cpuUsage(),
    residentBytes: () => process.memoryUsage.rss(),
    startedAt,
  });
  const events = new EventRecorder({
    sink: parts.eventSink,
    clock,
    instance: nodeName,
    makeId: () => randomUUID().replaceAll("-", ""),
    onDropped: ({ reason, note }) => {
      metrics.own.eventsDropped.inc();
      logger.debug({ reason, note }, "Event not delivered");
    },
  });
  const node = (): EventSubject => ({ kind: "Node", namespace: "", name: nodeName, uid: world.node.uid });
  const host = await readHostView(options, hostFiles);
  const telemetry = new Telemetry({
    metrics,
    events,
    logger,
    families: host.families,
    node: () => world.node,
    uidOf: (service) => uidOf(world, service),
  });
  const unhealthyAfter = (): number => UNHEALTHY_AFTER_PERIODS * options.syncPeriodMs;
  const isProxyHealthy = (): boolean =>
    judgeHealth(daemon.health.snapshot(), clock.now(), unhealthyAfter()).proxyHealthy;
  const serviceHealth = new ServiceHealthServers({
    isProxyHealthy,
    clock,
    logger,
    onFailure: (service, port, error) => {
      const [namespace = "", name = ""] = service.split("/");
      const subject: EventSubject = { kind: "Service", namespace, name, uid: uidOf(world, service) };
      logger.warn({ service, port, error: messageOf(error) }, "cannot serve a health check node port, will try again");
      events.record(failedHealthPortEvent(subject, port, nodeName, messageOf(error)));
    },
  });
  const cleaner = new StaleFlowCleaner({
    table: new Conntrack("conntrack"),
    nodeAddresses: async () => new Set(Object.values((await readHostView(ALL_ADDRESSES, hostFiles)).addresses).flat()),
    now: clock.now,
    logger,
    onCleaned: ({ deleted, duration }) => {
      for (const family of FAMILIES) {
        const labels = { ip_family: IP_FAMILY[family] };
        metrics.kubeProxy.conntrackDuration.observe(labels, duration / 1000);
        metrics.kubeProxy.conntrackDeleted.inc(labels, deleted[family]);
      }
    },
  });
  const daemon = new Daemon({
    options,
    world,
    nft,
    clock,
    logger,
    host,
    readHost: () => readHostView(options, hostFiles),
    makeSource,
    telemetry,
    serviceHealth,
    cleaner,
    dryRun,
    onFirstSync: parts.onFirstSync,
  });
  addSourceMetrics(metrics.registry, daemon.source);
  if (options.serviceCounters !== "off") {
    addConnectionMetrics(metrics.registry, {
      read: () => readConnectionCounts(nft, daemon.reconciler.state),
      now: clock.now,
      maxAge: COUNTERS_MAX_AGE,
      onError: (error) => logger.warn({ error: messageOf(error) }, "cannot read the connection counters"),
    });
  }
  const server = (name: "healthz" | "metrics", address: ListenAddress, find: FindRoute): KeptServer =>
    new KeptServer({
      name,
      address: listenAddress(address.address, address.port),
      find,
      clock,
      logger,
      hardFail: options.bindAddressHardFail,
      onFailure: (error) => {
        logger.warn({ server: name, error: messageOf(error) }, "cannot listen, will try again");
        events.record(failedServerEvent(node(), name, messageOf(error)));
      },
    });
  const health = healthRoutes({
    snapshot: () => daemon.health.snapshot(),
    now: clock.now,
    threshold: unhealthyAfter,
    onAnswer: (path, status) => {
      const counter = path === "/healthz" ? metrics.kubeProxy.healthz : metrics.kubeProxy.livez;
      counter.inc({ code: String(status) });
    },
  });
  const registry = {
    contentType: metrics.registry.contentType,
    metrics: async () => {
      telemetry.gauges(daemon.reconciler.state, daemon.reconciler.quarantined.size);
      countChanges(metrics, daemon);
      return await metrics.registry.metrics();
    },
  };
  const debugging = metricsRoutes({
    registry,
    config: () => configurationOf(options),
    flags: () => parts.flags,
    version,
    startedAt,
    now: clock.now,
  });
  const servers = [
    server("healthz", options.healthzBindAddress, (path) => health.get(path)),
    server("metrics", options.metricsBindAddress, (path) => debugging.get(path)),
  ];
  return {
    daemon,
    setOptions: (next) => {
      options = next;
      daemon.setOptions(next);
    },
    start: async () => {
      for (const one of servers) await one.start();
      events.record(startingEvent(node()));
      daemon.start();
    },
    stop: async () => {
      await daemon.stop();
      await Promise.all([...servers.map((one) => one.close()), events.stop()]);
    },
  };
}

/** Asks for the host's addresses of both families, whatever the options. */
const ALL_ADDRESSES = { nodePortAddresses: { ip: [], ip6: [] } };

/** kube-proxy counts changes as they come; ours are counted by the feed and copied when scraped. */
function countChanges({ kubeProxy }: Metrics, { feed }: Daemon): void {
  for (const [counter, pending, { total, unsynced }] of [
    [kubeProxy.serviceChanges, kubeProxy.serviceChangesPending, feed.services],
    [kubeProxy.endpointChanges, kubeProxy.endpointChangesPending, feed.endpoints],
  ] as const) {
    counter.reset();
    counter.inc(total);
    pending.set(unsynced);
  }
}
