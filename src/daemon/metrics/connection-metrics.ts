import { Counter, type Registry } from "prom-client";
import { FAMILY_NAMES, type Family } from "../../base/family.ts";
import type { Protocol } from "../../model/ids.ts";
import { type CachedReadingOptions, cachedReading } from "./cached-reading.ts";

/** How many new connections a map element has counted since it was made. */
export interface ConnectionCount {
  readonly family: Family;
  readonly namespace: string;
  readonly service: string;
  /** The port's name, or its number where it has none. */
  readonly port: string;
  readonly protocol: Protocol;
  /** The frontend's address and port, or `nodePort:N`; of an endpoint, its own address and port. */
  readonly target: string;
  readonly connections: number;
}

/** The counters of the maps at one moment. */
export interface ConnectionCounts {
  readonly frontends: readonly ConnectionCount[];
  /** Those with a connection; undefined where endpoints are not counted. */
  readonly endpoints: readonly ConnectionCount[] | undefined;
}

const LABELS = ["ip_family", "namespace", "service", "port", "protocol", "target"] as const;

/**
 * Adds `nft_proxy_service_connections_total` and `nft_proxy_endpoint_connections_total`: new connections by
 * frontend and by endpoint as the kernel counted them. The maps are read when scraped, at most once per `maxAge`,
 * and once for scrapes at the same time. Off unless configured, because a counter costs memory on each CPU, and a scrape of
 * a large cluster a listing of the maps.
 *
 * @returns the same reading for others who show it; never rejects
 */
export function addConnectionMetrics(
  registry: Registry,
  options: CachedReadingOptions<ConnectionCounts>,
): () => Promise<ConnectionCounts> {
  const counts = cachedReading<ConnectionCounts>({ frontends: [], endpoints: undefined }, options);
  const add = (name: string, help: string, pick: (counts: ConnectionCounts) => readonly ConnectionCount[]) => {
    const counter = new Counter({ name, help, labelNames: LABELS, registers: [registry] });
    const empty = counter.get.bind(counter);
    // Not set series by series: prom-client looks each up by its labels, and 110,000 block this process for 1.4 s.
    counter.get = async () => ({ ...(await empty()), values: pick(await counts()).map(seriesOf) });
  };
  add("nft_proxy_service_connections_total", "New connections by frontend", ({ frontends }) => frontends);
  add(
    "nft_proxy_endpoint_connections_total",
    "New connections by endpoint that had any",
    ({ endpoints }) => endpoints ?? [],
  );
  return counts;
}

function seriesOf({ family, connections, ...labels }: ConnectionCount) {
  return { labels: { ip_family: FAMILY_NAMES[family], ...labels }, value: connections };
}
