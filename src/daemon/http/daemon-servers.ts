import type { Logger } from "../../base/logger.ts";
import type { ListenAddress } from "../../config/addresses.ts";
import { configurationOf } from "../../config/configuration.ts";
import { unfollowedResources } from "../../kube/source.ts";
import { healthRoutes } from "../health/health-routes.ts";
import { metricsRoutes } from "../metrics/metrics-routes.ts";
import { setStateGauges } from "../metrics/state-gauges.ts";
import { pendingServices } from "../status/pending-services.ts";
import { statusPage } from "../status/status-page.ts";
import type { DaemonStatus, VanishedStatus } from "../status/status-source.ts";
import { type DaemonSocketParts, daemonSocketRoutes } from "./daemon-socket.ts";
import type { Routes } from "./http-answers.ts";
import { listenAddress, openHttpServer } from "./http-server.ts";
import { prepareSocket } from "./prepare-socket.ts";
import { RetryingServer } from "./retrying-server.ts";

/** What the daemon's servers show. */
export interface DaemonServersParts extends DaemonSocketParts {
  readonly flags: ReadonlyMap<string, string>;
  readonly logger: Logger;
}

/** The servers for health checks, for metrics and debugging, and for the other commands; not yet listening. */
export function daemonServers(parts: DaemonServersParts): RetryingServer[] {
  const { healthzBindAddress, metricsBindAddress } = parts.options.value;
  return [
    ...server(parts, "healthz", healthzBindAddress, healthServerRoutes),
    ...server(parts, "metrics", metricsBindAddress, metricsServerRoutes),
    ...socketServer(parts),
  ];
}

/** The daemon socket, unless it is switched off. The daemon works without it: a failure is logged, and retried. */
function socketServer(parts: DaemonServersParts): RetryingServer[] {
  const { options, clock, logger } = parts;
  const path = options.value.daemonSocket;
  if (path === "") return [];
  const routes = daemonSocketRoutes(parts);
  return [
    new RetryingServer({
      name: "daemon socket",
      address: { path },
      open: async (address) => {
        await prepareSocket(path);
        return await openHttpServer(address, (asked) => routes.get(asked), logger);
      },
      clock,
      logger,
      hardFail: false,
      onFailure: () => {},
    }),
  ];
}

/** The server at an address, unless it is switched off. */
function server(
  parts: DaemonServersParts,
  name: "healthz" | "metrics",
  listen: ListenAddress | undefined,
  routesOf: (parts: DaemonServersParts) => Routes,
): RetryingServer[] {
  if (listen === undefined) return [];
  const { options, events, clock, logger } = parts;
  const routes = routesOf(parts);
  return [
    new RetryingServer({
      name,
      address: listenAddress(listen.address, listen.port),
      open: (address) => openHttpServer(address, (path) => routes.get(path), logger),
      clock,
      logger,
      hardFail: options.value.bindAddressHardFail,
      onFailure: (error) => events.serverFailed(name, error),
    }),
  ];
}

function healthServerRoutes(parts: DaemonServersParts): Routes {
  const { judge, history, health, reconciler, source, metrics, clock } = parts;
  return healthRoutes({
    judge,
    progress: () => ({
      verifiedAt: history.snapshot().verifiedAt,
      pendingSince: health.pendingSince,
      quarantined: reconciler.quarantined.size,
      unfollowed: unfollowedResources(source.states(), clock.now()),
    }),
    now: clock.now,
    onAnswer: (path, status) => {
      const code = String(status);
      if (path === "/healthz") metrics.kubeProxy.healthz.inc({ code });
      if (path === "/livez") metrics.kubeProxy.livez.inc({ code });
    },
  });
}

function metricsServerRoutes(parts: DaemonServersParts): Routes {
  const { metrics, options, flags, version, startedAt, clock } = parts;
  return metricsRoutes({
    registry: {
      contentType: metrics.registry.contentType,
      metrics: async () => {
        setStateGauges(metrics, parts);
        return await metrics.registry.metrics();
      },
    },
    page: async (query) => statusPage(await daemonStatus(parts), query),
    config: () => configurationOf(options.value),
    flags: () => flags,
    version,
    startedAt,
    now: clock.now,
  });
}

async function daemonStatus(parts: DaemonServersParts): Promise<DaemonStatus> {
  const { cache, counts, dryRun, history, nodeContext, reconciler, judge, source, version, startedAt, clock } = parts;
  const { health, timeline } = parts;
  const counted = await counts?.();
  const vanished = await vanishedStatus(parts);
  const refusals = parts.refusals?.recent;
  const now = clock.now();
  return {
    version,
    startedAt,
    now,
    dryRun,
    cache,
    nodeContext: nodeContext.current(),
    state: reconciler.state,
    quarantined: reconciler.quarantined,
    health: judge(),
    sources: source.states(),
    history: history.snapshot(),
    pending: { since: health.pendingSince, services: pendingServices(cache, reconciler.state) },
    timeline: timeline.minutes(now),
    ...(refusals === undefined ? {} : { refusals }),
    ...(vanished === undefined ? {} : { vanished }),
    counts: counted,
  };
}

async function vanishedStatus({ vanished, resets }: DaemonServersParts): Promise<VanishedStatus | undefined> {
  if (vanished === undefined) return undefined;
  const packets = Object.values((await resets?.()) ?? {});
  return { held: vanished.held(), resetPackets: packets.reduce((sum, count) => sum + count, 0) };
}
