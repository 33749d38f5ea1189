import { Counter, Gauge, Histogram, type Registry } from "prom-client";

/** `refused`: the kernel or our schema refused a transaction; `missing`: there is no nft. */
export type NftFailureCause = "refused" | "timeout" | "missing" | "other";

/** What kube-proxy has no metric for. Times are in seconds, timestamps in seconds since 1970. */
export interface OwnMetrics {
  /** Always 1; `version` is the product's. */
  readonly buildInfo: Gauge<"version">;
  /** `kind` is `table` (ours was gone or emptied) or `element` (something in it differed). */
  readonly driftRepairs: Counter<"kind">;
  readonly quarantined: Gauge;
  /** 1 for a family without tables because the kernel refuses these. */
  readonly excludedFamily: Gauge<"ip_family">;
  /** Service ports that lost a contested address and port to another. */
  readonly contested: Gauge;
  /** From the moment when a change was received from the API server to its rules in the kernel. */
  readonly changeLag: Histogram;
  readonly transactionElements: Histogram;
  readonly transactionBytes: Histogram;
  readonly nftDuration: Histogram;
  /** Syncs that failed, by {@link NftFailureCause}. */
  readonly nftFailures: Counter<"cause">;
  /** `family` is `ip` or `ip6`, as in nft. */
  readonly mapElements: Gauge<"family" | "map">;
  /** The most elements that a set or map filled by packets takes; what it has is not counted, as it may take seconds. */
  readonly mapCapacity: Gauge<"family" | "map">;
  /** `result` is `same`, `repaired` or `failed`. */
  readonly fullResyncs: Counter<"result">;
  readonly fullResyncDifferences: Counter;
  /** When the kernel was last compared with the desired state, element by element, without a difference. */
  readonly lastVerified: Gauge;
  /** Since when the kernel has lacked a change; 0 while it is up to date. */
  readonly outOfSyncSince: Gauge;
  readonly eventsDropped: Counter;
  /** `reason` is a RefusalReason; namespace and service are "" where no Service serves the destination. */
  readonly refusedPackets: Counter<"namespace" | "service" | "reason">;
}

const ELEMENT_BUCKETS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144];
const BYTE_BUCKETS = [1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864];
const LAG_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 60];
const NFT_BUCKETS = Array.from({ length: 14 }, (_, index) => 2 ** index / 1000);

/** Makes our own metrics in `registry`, prefix `nft_proxy_`. */
export function createOwnMetrics(registry: Registry): OwnMetrics {
  const base = (name: string, help: string) => ({ name: `nft_proxy_${name}`, help, registers: [registry] });
  const metrics: OwnMetrics = {
    buildInfo: new Gauge({ ...base("build_info", "The version that runs"), labelNames: ["version"] }),
    driftRepairs: new Counter({
      ...base("drift_repairs_total", "Repairs of what others changed"),
      labelNames: ["kind"],
    }),
    quarantined: new Gauge(
      base(
        "quarantined_service_ports",
        "Service ports without rules because the kernel refuses them or they exceed a limit",
      ),
    ),
    excludedFamily: new Gauge({
      ...base("excluded_family", "1 for a family without rules because the kernel refuses its tables"),
      labelNames: ["ip_family"],
    }),
    contested: new Gauge(base("contested_service_ports", "Service ports that lost an address and port to another")),
    changeLag: new Histogram({
      ...base("change_lag_seconds", "Time from the receipt of a change to its rules in the kernel"),
      buckets: LAG_BUCKETS,
    }),
    transactionElements: new Histogram({
      ...base("transaction_elements", "Elements added or removed by a transaction"),
      buckets: ELEMENT_BUCKETS,
    }),
    transactionBytes: new Histogram({
      ...base("transaction_bytes", "Transaction size as JSON"),
      buckets: BYTE_BUCKETS,
    }),
    nftDuration: new Histogram({
      ...base("nft_duration_seconds", "Time of a run of nft that applies a transaction"),
      buckets: NFT_BUCKETS,
    }),
    nftFailures: new Counter({ ...base("nft_failures_total", "Syncs that failed, by cause"), labelNames: ["cause"] }),
    mapElements: new Gauge({ ...base("map_elements", "Elements in a set or map"), labelNames: ["family", "map"] }),
    mapCapacity: new Gauge({
      ...base("map_capacity", "Most elements that a set or map filled by packets takes"),
      labelNames: ["family", "map"],
    }),
    fullResyncs: new Counter({ ...base("full_resyncs_total", "Comparisons with the kernel"), labelNames: ["result"] }),
    fullResyncDifferences: new Counter(base("full_resync_differences_total", "Differences found by comparisons")),
    lastVerified: new Gauge(
      base("last_verified_timestamp_seconds", "When all rules were last compared with the kernel, element by element"),
    ),
    outOfSyncSince: new Gauge(
      base(
        "out_of_sync_since_timestamp_seconds",
        "Since when the kernel has lacked a change, 0 while it is up to date",
      ),
    ),
    refusedPackets: new Counter({
      ...base("refused_packets_total", "Packets of new connections that the rules refused or dropped, by cause"),
      labelNames: ["namespace", "service", "reason"],
    }),
    eventsDropped: new Counter(base("events_dropped_total", "Kubernetes Events that were not delivered")),
  };
  for (const cause of ["refused", "timeout", "missing", "other"]) metrics.nftFailures.inc({ cause }, 0);
  for (const kind of ["table", "element"]) metrics.driftRepairs.inc({ kind }, 0);
  for (const result of ["same", "repaired", "failed"]) metrics.fullResyncs.inc({ result }, 0);
  return metrics;
}
