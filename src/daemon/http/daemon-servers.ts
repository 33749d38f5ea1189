import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { ListenAddress, ProxyOptions } from "../../config/options.ts";
import { configurationOf } from "../../config/print.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Daemon } from "../daemon.ts";
import type { EventChannel } from "../events/event-channel.ts";
import { judgeHealth } from "../health/health.ts";
import { healthRoutes } from "../health/health-routes.ts";
import type { ConnectionCounts } from "../metrics/connection-metrics.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { metricsRoutes } from "../metrics/metrics-routes.ts";
import type { Telemetry } from "../metrics/telemetry.ts";
import { statusPage } from "../status/status-page.ts";
import type { DaemonStatus } from "../status/status-source.ts";
import type { Routes } from "./http-answers.ts";
import { listenAddress } from "./http-server.ts";
import { RetryingServer } from "./retrying-server.ts";

/** What the daemon's two servers show. */
export interface DaemonServersParts {
  readonly daemon: Daemon;
  readonly cache: ObjectCache;
  /** The counts of connections, undefined where these are not counted. */
  readonly counts: (() => Promise<ConnectionCounts>) | undefined;
  readonly dryRun: boolean;
  readonly options: () => ProxyOptions;
  readonly metrics: Metrics;
  readonly telemetry: Telemetry;
  readonly events: EventChannel;
  /** Milliseconds for which the kernel may differ from what is wanted. */
  readonly unhealthyAfter: () => number;
  readonly flags: ReadonlyMap<string, string>;
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The servers for health checks and for metrics and debugging, not yet listening. */
export function daemonServers(parts: DaemonServersParts): RetryingServer[] {
  const { healthzBindAddress, metricsBindAddress } = parts.options();
  return [
    server(parts, "healthz", healthzBindAddress, healthServerRoutes(parts)),
    server(parts, "metrics", metricsBindAddress, metricsServerRoutes(parts)),
  ];
}

function server(
  { options, events, clock, logger }: DaemonServersParts,
  name: "healthz" | "metrics",
  { address, port }: ListenAddress,
  routes: Routes,
): RetryingServer {
  return new RetryingServer({
    name,
    address: listenAddress(address, port),
    find: (path) => routes.get(path),
    clock,
    logger,
    hardFail: options().bindAddressHardFail,
    onFailure: (error) => events.serverFailed(name, error),
  });
}

function healthServerRoutes({ daemon, metrics, unhealthyAfter, clock }: DaemonServersParts): Routes {
  return healthRoutes({
    snapshot: () => daemon.health.snapshot(),
    now: clock.now,
    threshold: unhealthyAfter,
    onAnswer: (path, status) => {
      const counter = path === "/healthz" ? metrics.kubeProxy.healthz : metrics.kubeProxy.livez;
      counter.inc({ code: String(status) });
    },
  });
}

function metricsServerRoutes(parts: DaemonServersParts): Routes {
  const { daemon, metrics, telemetry, options, flags, version, startedAt, clock } = parts;
  return metricsRoutes({
    registry: {
      contentType: metrics.registry.contentType,
      metrics: async () => {
        telemetry.gauges(daemon.reconciler.state, daemon.reconciler.quarantined.size);
        telemetry.changes(daemon.feed);
        return await metrics.registry.metrics();
      },
    },
    page: async (query) => statusPage(await daemonStatus(parts), query),
    config: () => configurationOf(options()),
    flags: () => flags,
    version,
    startedAt,
    now: clock.now,
  });
}

async function daemonStatus(parts: DaemonServersParts): Promise<DaemonStatus> {
  const { daemon, cache, counts, dryRun, telemetry, unhealthyAfter, version, startedAt, clock } = parts;
  const counted = await counts?.();
  const now = clock.now();
  return {
    version,
    startedAt,
    now,
    dryRun,
    cache,
    nodeContext: daemon.nodeContext(),
    state: daemon.reconciler.state,
    quarantined: daemon.reconciler.quarantined,
    health: judgeHealth(daemon.health.snapshot(), now, unhealthyAfter()),
    sources: daemon.source.states(),
    history: telemetry.history.snapshot(),
    counts: counted,
  };
}
