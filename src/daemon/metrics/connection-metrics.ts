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
  /** Empty unless endpoints are counted too. */
  readonly endpoints: readonly ConnectionCount[];
}

const LABELS = ["ip_family", "namespace", "service", "port", "protocol", "target"] as const;
type Label = (typeof LABELS)[number];

/**
 * Adds `nft_proxy_service_connections_total` and `nft_proxy_endpoint_connections_total`: new connections by
 * frontend and by endpoint as the kernel counted them. The maps are read when scraped, at most once per `maxAge`,
 * and once for scrapes at the same time. Off unless configured, because a counter costs memory on each CPU.
 *
 * @returns the same reading for others who show it; never rejects
 */
export function addConnectionMetrics(
  registry: Registry,
  options: CachedReadingOptions<ConnectionCounts>,
): () => Promise<ConnectionCounts> {
  const counts = cachedReading<ConnectionCounts>({ frontends: [], endpoints: [] }, options);
  const add = (name: string, help: string, pick: (counts: ConnectionCounts) => readonly ConnectionCount[]) =>
    new Counter({
      name,
      help,
      labelNames: LABELS,
      registers: [registry],
      async collect() {
        fill(this, pick(await counts()));
      },
    });
  add("nft_proxy_service_connections_total", "New connections by frontend", ({ frontends }) => frontends);
  add("nft_proxy_endpoint_connections_total", "New connections by endpoint", ({ endpoints }) => endpoints);
  return counts;
}

function fill(counter: Counter<Label>, counts: readonly ConnectionCount[]): void {
  counter.reset();
  for (const { family, connections, ...labels } of counts) {
    counter.inc({ ip_family: FAMILY_NAMES[family], ...labels }, connections);
  }
}
