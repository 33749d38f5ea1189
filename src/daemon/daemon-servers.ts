import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { ListenAddress, ProxyOptions } from "../config/options.ts";
import { configurationOf } from "../config/print.ts";
import type { World } from "../model/world.ts";
import type { Daemon } from "./daemon.ts";
import type { EventChannel } from "./event-channel.ts";
import { judgeHealth } from "./health.ts";
import { healthRoutes } from "./health-routes.ts";
import type { Routes } from "./http-answers.ts";
import { listenAddress } from "./http-servers.ts";
import { KeptServer } from "./kept-server.ts";
import type { Metrics } from "./metrics.ts";
import type { ConnectionCounts } from "./metrics-connections.ts";
import { metricsRoutes } from "./metrics-routes.ts";
import { statusPage } from "./status/status-page.ts";
import type { DaemonStatus } from "./status/status-source.ts";
import type { Telemetry } from "./telemetry.ts";

/** What the daemon's two servers show. */
export interface DaemonServersParts {
  readonly daemon: Daemon;
  readonly world: World;
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
export function daemonServers(parts: DaemonServersParts): KeptServer[] {
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
): KeptServer {
  return new KeptServer({
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
  const { daemon, world, counts, dryRun, telemetry, unhealthyAfter, version, startedAt, clock } = parts;
  const counted = await counts?.();
  const now = clock.now();
  return {
    version,
    startedAt,
    now,
    dryRun,
    world,
    contexts: daemon.contexts(),
    state: daemon.reconciler.state,
    quarantined: daemon.reconciler.quarantined,
    health: judgeHealth(daemon.health.snapshot(), now, unhealthyAfter()),
    sources: daemon.source.states(),
    history: telemetry.history.snapshot(),
    counts: counted,
  };
}
