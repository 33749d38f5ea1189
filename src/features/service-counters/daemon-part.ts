import { FailureLog } from "../../base/failure-log.ts";
import { cachedReading } from "../../kernel/logged-reading.ts";
import type { DaemonPart, FeatureHost } from "../seam/daemon-part.ts";
import {
  type ConnectionCounts,
  connectionLookup,
  LABELS,
  readConnectionCounts,
} from "./connection-counts.ts";

/** Minimum time between readings of the counters. Milliseconds. */
const COUNTERS_MAX_AGE = 5000;

/** Shows the counters in metrics and on the status page. In a large cluster, a reading lists large maps. */
export function createDaemonPart(host: FeatureHost): DaemonPart {
  const failures = new FailureLog(host, "read the connection counters");
  const first: ConnectionCounts = { frontends: new Map(), endpoints: undefined };
  const read = () => readConnectionCounts(host.tables, host.state());
  const counts = cachedReading(first, read, COUNTERS_MAX_AGE, host.clock, failures);
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
