import { cachedCounters } from "../../kernel/logged-reading.ts";
import type { DaemonPart, FeatureHost } from "../seam/daemon-part.ts";
import {
  type ConnectionCounts,
  connectionLookup,
  LABELS,
  readConnectionCounts,
} from "./connection-counts.ts";

/** Shows the counters in metrics and on the status page. In a large cluster, a reading lists large maps. */
export function createDaemonPart(host: FeatureHost): DaemonPart {
  const first: ConnectionCounts = { frontends: new Map(), endpoints: undefined };
  const read = () => readConnectionCounts(host.tables, host.state());
  const counts = cachedCounters(host, "the connection counters", first, read);
  return {
    metrics: {
      nft_proxy_service_connections_total: {
        kind: "counter",
        help: "New connections by frontend",
        labels: LABELS,
        samples: async () => [...(await counts()).frontends.values()],
      },
      nft_proxy_endpoint_connections_total: {
        kind: "counter",
        help: "New connections by endpoint; only endpoints that had any",
        labels: LABELS,
        samples: async () => [...((await counts()).endpoints?.values() ?? [])],
      },
    },
    connections: async () => connectionLookup(await counts()),
  };
}
