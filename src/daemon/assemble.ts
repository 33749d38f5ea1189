import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { StaleFlowCleaner } from "../conntrack/stale-flow-cleaner.ts";
import { Conntrack } from "../kernel/conntrack.ts";
import { hostFiles } from "../kernel/host.ts";
import type { Nft } from "../kernel/nft.ts";
import { systemClock } from "../kernel/system-clock.ts";
import type { ObjectSource, SourceHandlers } from "../kube/source.ts";
import { ObjectCache } from "../model/object-cache.ts";
import { readHostView } from "../sync/host-view.ts";
import { compactHeap } from "./compact-heap.ts";
import { Daemon, type DaemonParts } from "./daemon.ts";
import { EventChannel } from "./events/event-channel.ts";
import type { EventSink } from "./events/event-recorder.ts";
import { startingEvent } from "./events/events.ts";
import { judgeHealth } from "./health/health.ts";
import { ServiceHealthServers } from "./health/service-health.ts";
import { daemonServers } from "./http/daemon-servers.ts";
import { readConnectionCounts } from "./metrics/connection-counts.ts";
import { addConnectionMetrics, type ConnectionCounts } from "./metrics/connection-metrics.ts";
import { createMetrics, type Metrics } from "./metrics/metrics.ts";
import { addSourceMetrics } from "./metrics/source-metrics.ts";
import { Telemetry } from "./metrics/telemetry.ts";

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

/** Asks for the host's addresses of both families, whatever the options. */
const ALL_ADDRESSES = { nodePortAddresses: { ip: [], ip6: [] } };

/** Puts a daemon together from its parts. @throws AppError HOST when the host cannot be looked at */
export async function assembleDaemon(parts: AssemblyParts): Promise<AssembledDaemon> {
  const { nodeName, version, nft, logger, dryRun, onFirstSync, flags } = parts;
  const clock = systemClock;
  const startedAt = clock.now();
  let options = parts.options;
  const unhealthyAfter = (): number => UNHEALTHY_AFTER_PERIODS * options.syncPeriodMs;
  const cache = new ObjectCache(nodeName);
  const metrics = createMetrics(version, {
    cpu: () => process.cpuUsage(),
    residentBytes: () => process.memoryUsage.rss(),
    startedAt,
  });
  const events = new EventChannel({ sink: parts.eventSink, clock, logger, metrics, cache });
  const host = await readHostView(options, hostFiles);
  const telemetry = new Telemetry({ metrics, events, logger, families: host.families });
  const daemon: Daemon = new Daemon({
    options,
    cache,
    nft,
    clock,
    logger,
    host,
    readHost: () => readHostView(options, hostFiles),
    makeSource: parts.makeSource,
    telemetry,
    serviceHealth: new ServiceHealthServers({
      isProxyHealthy: () => judgeHealth(daemon.health.snapshot(), clock.now(), unhealthyAfter()).proxyHealthy,
      clock,
      logger,
      onFailure: (service, port, error) => events.healthPortFailed(service, port, error),
    }),
    cleaner: new StaleFlowCleaner({
      table: new Conntrack("conntrack"),
      nodeAddresses: async () =>
        new Set(Object.values((await readHostView(ALL_ADDRESSES, hostFiles)).addresses).flat()),
      now: clock.now,
      logger,
      onCleaned: (report) => telemetry.cleaned(report),
    }),
    dryRun,
    onFirstSync,
    compactHeap,
  });
  const counts = addDaemonMetrics(metrics, daemon, parts);
  const servers = daemonServers({
    daemon,
    cache,
    counts,
    dryRun,
    options: () => options,
    metrics,
    telemetry,
    events,
    unhealthyAfter,
    flags,
    version,
    startedAt,
    clock,
    logger,
  });
  return {
    daemon,
    setOptions: (next) => {
      options = next;
      daemon.setOptions(next);
    },
    start: async () => {
      for (const server of servers) await server.start();
      events.recorder.record(startingEvent(events.node()));
      daemon.start();
    },
    stop: async () => {
      await daemon.stop();
      await Promise.all([...servers.map((server) => server.close()), events.recorder.stop()]);
    },
  };
}

/** @returns the counts of connections, where these are counted */
function addDaemonMetrics(
  { registry }: Metrics,
  daemon: Daemon,
  { options, nft, logger }: AssemblyParts,
): (() => Promise<ConnectionCounts>) | undefined {
  addSourceMetrics(registry, daemon.source);
  if (options.serviceCounters === "off") return undefined;
  return addConnectionMetrics(registry, {
    read: () => readConnectionCounts(nft, daemon.reconciler.state),
    now: systemClock.now,
    maxAge: COUNTERS_MAX_AGE,
    onError: (error) => logger.warn({ error: messageOf(error) }, "cannot read the connection counters"),
  });
}
