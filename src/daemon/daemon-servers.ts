import type { Logger } from "../base/logger.ts";
import type { ListenAddress } from "../config/addresses.ts";
import { configurationOf } from "../config/configuration.ts";
import type { CostlyTable } from "../kernel/others-sets.ts";
import { unfollowedResources } from "../kube/source.ts";
import { type DaemonSocketParts, daemonSocketRoutes, prepareSocket } from "./daemon-socket.ts";
import type { FastPathDevices } from "./fast-path-devices.ts";
import type { HealthReport } from "./health/health.ts";
import { healthRoutes } from "./health/health-routes.ts";
import {
  jsonAnswer,
  listenAddress,
  openHttpServer,
  type Route,
  type Routes,
  textAnswer,
} from "./http/http-server.ts";
import { RetryingServer } from "./http/retrying-server.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { ConnectionCounts, ResetPackets } from "./readings/connection-counts.ts";
import type { DaemonStatus, VanishedStatus } from "./status/daemon-status.ts";
import { pendingServices } from "./status/daemon-status.ts";
import { statusPage } from "./status/status-page.ts";
import type { SyncTimeline } from "./status/sync-history.ts";

/** What the daemon's servers show. */
export interface DaemonServersParts extends DaemonSocketParts {
  readonly logger: Logger;
  /** The flags that were given, by name, for /flagz. */
  readonly flags: ReadonlyMap<string, string>;
  readonly metrics: Metrics;
  /** The health at this moment. */
  readonly judge: () => HealthReport;
  readonly timeline: SyncTimeline;
  /** Undefined where connections are not counted. */
  readonly connectionCounts: (() => Promise<ConnectionCounts>) | undefined;
  /** Undefined where connections to vanished endpoints are not reset. */
  readonly resetPackets: (() => Promise<ResetPackets>) | undefined;
  /** Undefined where no connection takes the fast path. */
  readonly fastPath: Pick<FastPathDevices, "count"> | undefined;
  /** The tables of other software that slow transactions down. */
  readonly costlyTables: () => readonly CostlyTable[];
  /** One of the two TCP servers cannot bind its address. */
  readonly onFailure: (server: "healthz" | "metrics", error: unknown) => void;
}

/** The servers for health checks, for metrics and debugging, and for the other commands; not yet listening. */
export function daemonServers(parts: DaemonServersParts): RetryingServer[] {
  const { healthzBindAddress, metricsBindAddress, daemonSocket } = parts.options();
  return [
    ...tcpServer(parts, "healthz", healthzBindAddress, () => healthServerRoutes(parts)),
    ...tcpServer(parts, "metrics", metricsBindAddress, () => metricsServerRoutes(parts)),
    ...(daemonSocket === "" ? [] : [socketServer(parts, daemonSocket)]),
  ];
}

/** The daemon socket. The daemon works without it: a failure is logged, and retried. */
function socketServer(parts: DaemonServersParts, path: string): RetryingServer {
  const { clock, logger } = parts;
  const routes = daemonSocketRoutes(parts);
  const open = async () => {
    await prepareSocket(path);
    return await openHttpServer({ path }, (asked) => routes.get(asked), logger);
  };
  return new RetryingServer({ name: "daemon socket", address: { path }, open, clock, logger });
}

/** The server at an address, unless it is switched off. */
function tcpServer(
  { options, clock, logger, onFailure }: DaemonServersParts,
  name: "healthz" | "metrics",
  listen: ListenAddress | undefined,
  makeRoutes: () => Routes,
): RetryingServer[] {
  if (listen === undefined) return [];
  const routes = makeRoutes();
  return [
    new RetryingServer({
      name,
      address: listenAddress(listen.address, listen.port),
      open: (address) => openHttpServer(address, (path) => routes.get(path), logger),
      clock,
      logger,
      hardFail: options().bindAddressHardFail,
      onFailure: (error) => onFailure(name, error),
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
    onAnswer: (path, status) => metrics.observe("healthAnswer", { path, status }),
  });
}

function metricsServerRoutes(parts: DaemonServersParts): Routes {
  const { metrics, options, flags, version, startedAt, clock } = parts;
  return metricsRoutes({
    registry: metrics.registry,
    page: async (query) => statusPage(await daemonStatus(parts), query),
    config: () => configurationOf(options()),
    flags,
    version,
    startedAt,
    now: clock.now,
  });
}

async function daemonStatus(parts: DaemonServersParts): Promise<DaemonStatus> {
  const { version, startedAt, dryRun, clock, cache, nodeContext, reconciler, source } = parts;
  const { health, judge, history, timeline } = parts;
  const counts = await parts.connectionCounts?.();
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
    ...(parts.fastPath === undefined ? {} : { fastPathInterfaces: parts.fastPath.count }),
    costlyTables: parts.costlyTables(),
    counts,
  };
}

async function vanishedStatus({
  vanished,
  resetPackets,
}: DaemonServersParts): Promise<VanishedStatus | undefined> {
  if (vanished === undefined) return undefined;
  const packets = Object.values((await resetPackets?.()) ?? {});
  return { held: vanished.held(), resetPackets: packets.reduce((sum, count) => sum + count, 0) };
}

/** What the endpoints of the metrics server show. */
export interface MetricsRoutesOptions {
  /** The exposition and its content type: a prom-client registry. */
  readonly registry: { metrics(): Promise<string>; readonly contentType: string };
  /** The status page, for the query of its URL. */
  readonly page: Route;
  /** The effective configuration, a KubeProxyConfiguration as plain data. */
  readonly config: () => unknown;
  /** The flags that were given, by name. */
  readonly flags: ReadonlyMap<string, string>;
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Wall clock, milliseconds. */
  readonly now: () => number;
}

/** The routes of the metrics server: kube-proxy's paths, and the status page. */
export function metricsRoutes(options: MetricsRoutesOptions): Routes {
  const { registry, page, config, flags } = options;
  const routes: Routes = new Map<string, Route>([
    ["/", page],
    [
      "/metrics",
      async () => ({ status: 200, contentType: registry.contentType, body: await registry.metrics() }),
    ],
    ["/healthz", () => textAnswer("ok")],
    ["/proxyMode", () => textAnswer("nftables")],
    ["/configz", () => jsonAnswer(JSON.stringify({ "kubeproxy.config.k8s.io": config() }))],
    ["/statusz", () => textAnswer(statusText(options, [...routes.keys()]))],
    ["/flagz", () => textAnswer(lines("nft-proxy flagz", [...flags].sort()))],
  ]);
  return routes;
}

function statusText({ startedAt, now, version }: MetricsRoutesOptions, paths: readonly string[]): string {
  return lines("nft-proxy statusz", [
    ["Started", new Date(startedAt).toUTCString()],
    ["Up", `${Math.floor((now() - startedAt) / 1000)} s`],
    ["Node version", process.version],
    ["Binary version", version],
    ["Paths", [...paths].sort().join(" ")],
  ]);
}

function lines(title: string, rows: readonly (readonly [string, string])[]): string {
  return [
    title,
    "For debugging by people: the layout may change.",
    "",
    ...rows.map((row) => row.join("=")),
    "",
  ].join("\n");
}
