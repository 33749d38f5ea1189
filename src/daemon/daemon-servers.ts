import type { Registry } from "prom-client";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { DaemonInput } from "./daemon-input.ts";
import { prepareSocket } from "./daemon-socket.ts";
import {
  jsonAnswer,
  type ListenAddress,
  listenAddress,
  openHttpServer,
  type Route,
  type Routes,
  textAnswer,
} from "./http/http-server.ts";
import { type RetryingServer, type RetryingServerOptions, retryingServer } from "./http/retrying-server.ts";

/**
 * Makes the servers for health checks, for metrics and debugging, and for the other commands. They do not
 * listen yet.
 * @param onFailure called when one of the two TCP servers cannot bind its address
 */
export function daemonServers(
  options: ProxyOptions,
  { healthz, metrics, socket }: Readonly<Record<"healthz" | "metrics" | "socket", Routes>>,
  clock: Clock,
  logger: Logger,
  onFailure: (server: "healthz" | "metrics", error: unknown) => void,
): RetryingServer[] {
  const { healthzBindAddress, secondHealthzBindAddress, metricsBindAddress, daemonSocket } = options;
  const server = (
    name: string,
    address: ListenAddress,
    routes: Routes,
    more?: Pick<RetryingServerOptions, "hardFail" | "onFailure">,
  ) => {
    const open = async () => {
      if ("path" in address) await prepareSocket(address.path);
      return await openHttpServer(address, (path) => routes.get(path), logger);
    };
    return retryingServer({ name, address, open, clock, logger, ...more });
  };
  const tcp = (listen: ProxyOptions["healthzBindAddress"]) =>
    listen === undefined ? [] : [listenAddress(listen.address, listen.port)];
  const important = (name: "healthz" | "metrics") => ({
    hardFail: options.bindAddressHardFail,
    onFailure: (error: unknown) => onFailure(name, error),
  });
  return [
    ...tcp(healthzBindAddress).map((address) => server("healthz", address, healthz, important("healthz"))),
    ...tcp(metricsBindAddress).map((address) => server("metrics", address, metrics, important("metrics"))),
    // Another program may have it.
    ...tcp(secondHealthzBindAddress).map((address) => server("second healthz", address, healthz)),
    // The daemon works without it, so a failure is only logged and retried.
    ...(daemonSocket === "" ? [] : [server("daemon socket", { path: daemonSocket }, socket)]),
  ];
}

/**
 * Returns the routes of the metrics server: kube-proxy's paths and the status page.
 * @param startedAt milliseconds since 1970
 * @param config returns the effective configuration, a KubeProxyConfiguration as plain data
 */
export function metricsRoutes(
  { flags, version }: Pick<DaemonInput, "flags" | "version">,
  clock: Pick<Clock, "now">,
  registry: Pick<Registry, "metrics" | "contentType">,
  startedAt: number,
  config: () => unknown,
  page: Route,
): Routes {
  const status = () => [
    ["Started", new Date(startedAt).toUTCString()],
    ["Up", `${Math.floor((clock.now() - startedAt) / 1000)} s`],
    ["Node version", process.version],
    ["Binary version", version],
    ["Paths", [...routes.keys()].sort().join(" ")],
  ];
  const routes: Routes = new Map<string, Route>([
    ["/", page],
    [
      "/metrics",
      async () => ({ status: 200, contentType: registry.contentType, body: await registry.metrics() }),
    ],
    ["/healthz", () => textAnswer("ok")],
    ["/proxyMode", () => textAnswer("nftables")],
    ["/configz", () => jsonAnswer(JSON.stringify({ "kubeproxy.config.k8s.io": config() }))],
    ["/statusz", () => textAnswer(lines("nft-proxy statusz", status()))],
    ["/flagz", () => textAnswer(lines("nft-proxy flagz", [...flags].sort()))],
  ]);
  return routes;
}

function lines(title: string, rows: readonly (readonly string[])[]): string {
  return [
    title,
    "For debugging by people: the layout may change.",
    "",
    ...rows.map((row) => row.join("=")),
    "",
  ].join("\n");
}
