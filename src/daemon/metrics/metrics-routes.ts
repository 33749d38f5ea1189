import { jsonAnswer, type Route, type Routes, textAnswer } from "../http/http-answers.ts";

/** What the endpoints of the metrics server show. */
export interface MetricsRoutesOptions {
  /** The exposition and its content type: a prom-client registry. */
  readonly registry: { metrics(): Promise<string>; readonly contentType: string };
  /** The status page, for the query of its URL. */
  readonly page: Route;
  /** The effective configuration, a KubeProxyConfiguration as plain data. */
  readonly config: () => unknown;
  /** The flags that were given, by name. */
  readonly flags: () => ReadonlyMap<string, string>;
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
    ["/metrics", async () => ({ status: 200, contentType: registry.contentType, body: await registry.metrics() })],
    ["/healthz", () => textAnswer("ok")],
    ["/proxyMode", () => textAnswer("nftables")],
    ["/configz", () => jsonAnswer(JSON.stringify({ "kubeproxy.config.k8s.io": config() }))],
    ["/statusz", () => textAnswer(statusText(options, [...routes.keys()]))],
    ["/flagz", () => textAnswer(lines("nft-proxy flagz", [...flags()].sort()))],
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
  return [title, "For debugging by people: the layout may change.", "", ...rows.map((row) => row.join("=")), ""].join(
    "\n",
  );
}
