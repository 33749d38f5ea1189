import { Counter, type Registry } from "prom-client";
import { FAMILY_NAMES, type Family } from "../../base/family.ts";
import type { Protocol } from "../../model/ids.ts";

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

/** What {@link addConnectionMetrics} needs. */
export interface ConnectionMetricsOptions {
  /** Lists the maps and reads their counters; expensive. A rejection leaves the last counts in place. */
  readonly read: () => Promise<ConnectionCounts>;
  /** Wall clock, milliseconds. */
  readonly now: () => number;
  /** How long a reading is good for, milliseconds: whoever scrapes more often gets the last one. */
  readonly maxAge: number;
  /** Told of each reading that failed. */
  readonly onError: (error: unknown) => void;
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
  options: ConnectionMetricsOptions,
): () => Promise<ConnectionCounts> {
  const counts = cached(options);
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

function cached({ read, now, maxAge, onError }: ConnectionMetricsOptions): () => Promise<ConnectionCounts> {
  let last: ConnectionCounts = { frontends: [], endpoints: [] };
  let readAt = Number.NEGATIVE_INFINITY;
  let underWay: Promise<ConnectionCounts> | undefined;
  const refresh = async () => {
    try {
      last = await read();
    } catch (error) {
      onError(error);
    }
    // A failed reading counts as one, so that scrapes do not repeat it while nft is in trouble.
    readAt = now();
    underWay = undefined;
    return last;
  };
  return () => {
    if (underWay !== undefined) return underWay;
    if (now() - readAt < maxAge) return Promise.resolve(last);
    underWay = refresh();
    return underWay;
  };
}
