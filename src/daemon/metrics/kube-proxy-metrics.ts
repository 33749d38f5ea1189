import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { FAMILIES, FAMILY_NAMES } from "../../base/family.ts";

/**
 * The metrics that dashboards and alerts written for kube-proxy 1.36 in nftables mode expect, under its names,
 * types, labels and buckets. Times are in seconds, timestamps in seconds since 1970.
 */
export interface KubeProxyMetrics {
  readonly syncDuration: Histogram<"ip_family">;
  readonly fullSyncDuration: Histogram<"ip_family">;
  readonly partialSyncDuration: Histogram<"ip_family">;
  readonly lastSynced: Gauge<"ip_family">;
  readonly lastQueued: Gauge<"ip_family">;
  readonly networkProgramming: Histogram<"ip_family">;
  readonly endpointChangesPending: Gauge;
  readonly endpointChanges: Counter;
  readonly serviceChangesPending: Gauge;
  readonly serviceChanges: Counter;
  /** `traffic_policy` is `internal` or `external`. */
  readonly noLocalEndpoints: Gauge<"ip_family" | "traffic_policy">;
  readonly syncFailures: Counter<"ip_family">;
  readonly cleanupFailures: Counter<"ip_family">;
  /** `code` is an HTTP status. */
  readonly healthz: Counter<"code">;
  readonly livez: Counter<"code">;
  readonly conntrackDuration: Histogram<"ip_family">;
  readonly conntrackDeleted: Counter<"ip_family">;
}

/** `count` numbers from `start`, `step` apart. */
function linear(start: number, step: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => start + step * index);
}

const SYNC_BUCKETS = Array.from({ length: 15 }, (_, index) => 2 ** index / 1000);
const PROGRAMMING_BUCKETS = [
  ...linear(0.25, 0.25, 2),
  ...linear(1, 1, 59),
  ...linear(60, 5, 12),
  ...linear(120, 30, 7),
];

/** Makes the metrics above in `registry`, each family at zero so that the first increase is seen as one. */
export function createKubeProxyMetrics(registry: Registry): KubeProxyMetrics {
  const make = makers(registry);
  const metrics: KubeProxyMetrics = {
    syncDuration: make.duration("sync_proxy_rules_duration_seconds", "Time of a sync of the rules"),
    fullSyncDuration: make.duration("sync_full_proxy_rules_duration_seconds", "Time of a sync of all rules"),
    partialSyncDuration: make.duration("sync_partial_proxy_rules_duration_seconds", "Time of a sync of changed rules"),
    lastSynced: make.familyGauge("sync_proxy_rules_last_timestamp_seconds", "When the rules were last synced"),
    lastQueued: make.familyGauge("sync_proxy_rules_last_queued_timestamp_seconds", "When a sync was last queued"),
    networkProgramming: make.duration(
      "network_programming_duration_seconds",
      "Time from the change of an endpoint in the cluster to its rules in the kernel",
      PROGRAMMING_BUCKETS,
    ),
    endpointChangesPending: make.gauge("sync_proxy_rules_endpoint_changes_pending", "EndpointSlice changes not synced"),
    endpointChanges: make.counter("sync_proxy_rules_endpoint_changes_total", "EndpointSlice changes seen"),
    serviceChangesPending: make.gauge("sync_proxy_rules_service_changes_pending", "Service changes not yet synced"),
    serviceChanges: make.counter("sync_proxy_rules_service_changes_total", "Service changes seen"),
    noLocalEndpoints: make.noLocalEndpoints(),
    syncFailures: make.familyCounter("sync_proxy_rules_nftables_sync_failures_total", "Syncs that failed"),
    cleanupFailures: make.familyCounter(
      "sync_proxy_rules_nftables_cleanup_failures_total",
      "Deletions of chains out of use that failed",
    ),
    healthz: make.codeCounter("proxy_healthz_total", "Answers of /healthz by status"),
    livez: make.codeCounter("proxy_livez_total", "Answers of /livez by status"),
    conntrackDuration: make.duration("conntrack_reconciler_sync_duration_seconds", "Time to clear stale UDP flows"),
    conntrackDeleted: make.familyCounter("conntrack_reconciler_deleted_entries_total", "Stale UDP flows cleared"),
  };
  startAtZero(metrics);
  return metrics;
}

/** One maker for each kind of metric, all under the prefix `kubeproxy_`. */
function makers(registry: Registry) {
  const base = (name: string, help: string) => ({ name: `kubeproxy_${name}`, help, registers: [registry] });
  const byFamily = ["ip_family"] as const;
  return {
    duration: (name: string, help: string, buckets = SYNC_BUCKETS) =>
      new Histogram({ ...base(name, help), labelNames: byFamily, buckets }),
    gauge: (name: string, help: string) => new Gauge(base(name, help)),
    counter: (name: string, help: string) => new Counter(base(name, help)),
    familyGauge: (name: string, help: string) => new Gauge({ ...base(name, help), labelNames: byFamily }),
    familyCounter: (name: string, help: string) => new Counter({ ...base(name, help), labelNames: byFamily }),
    codeCounter: (name: string, help: string) => new Counter({ ...base(name, help), labelNames: ["code"] as const }),
    noLocalEndpoints: () =>
      new Gauge({
        ...base("sync_proxy_rules_no_local_endpoints_total", "Service ports with a Local policy and no local endpoint"),
        labelNames: ["traffic_policy", "ip_family"] as const,
      }),
  };
}

/** Prometheus' rate() misses the first increase of a series that did not exist before it. */
function startAtZero(metrics: KubeProxyMetrics): void {
  for (const family of FAMILIES) {
    const labels = { ip_family: FAMILY_NAMES[family] };
    metrics.syncDuration.zero(labels);
    metrics.fullSyncDuration.zero(labels);
    metrics.partialSyncDuration.zero(labels);
    metrics.networkProgramming.zero(labels);
    metrics.conntrackDuration.zero(labels);
    for (const counter of [metrics.syncFailures, metrics.cleanupFailures, metrics.conntrackDeleted]) {
      counter.inc(labels, 0);
    }
    for (const policy of ["internal", "external"]) {
      metrics.noLocalEndpoints.set({ ...labels, traffic_policy: policy }, 0);
    }
  }
  for (const code of ["200", "503"]) {
    metrics.healthz.inc({ code }, 0);
    metrics.livez.inc({ code }, 0);
  }
}
