import { FAMILIES, type Family } from "../../base/family.ts";
import { one, type Sample } from "../../base/sample.ts";
import type { SyncReport } from "../../sync/sync-report.ts";
import { BOTH_FAMILIES, eachFamily, familyLabel, type Metric, type ScrapedParts } from "./metric.ts";

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
/** client-go's buckets (k8s.io/component-base/metrics/prometheus/restclient). */
const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];

const BY_FAMILY = ["ip_family"];
const POLICIES = ["internal", "external"] as const;

/** A histogram by family with kube-proxy's buckets for syncs. */
const SYNC_DURATION = { buckets: SYNC_BUCKETS, zero: BOTH_FAMILIES };

/**
 * The metrics of kube-proxy 1.36 in nftables mode (1.37 for NodePorts at loopback addresses) and of
 * client-go, with their names, types, labels and buckets, for existing dashboards and alerts.
 */
export const KUBE_PROXY_METRICS: Readonly<Record<string, Metric>> = {
  kubeproxy_sync_proxy_rules_duration_seconds: syncDuration("Time of a sync of the rules", () => true),
  kubeproxy_sync_full_proxy_rules_duration_seconds: syncDuration(
    "Time of a sync of all rules",
    (isFull) => isFull,
  ),
  kubeproxy_sync_partial_proxy_rules_duration_seconds: syncDuration(
    "Time of a sync of changed rules",
    (isFull) => !isFull,
  ),
  kubeproxy_sync_proxy_rules_last_timestamp_seconds: {
    help: "When the rules were last synced",
    labels: BY_FAMILY,
    synced: ({ report, families }) => eachFamily(families, report.endedAt / 1000),
  },
  kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds: {
    help: "When a sync was last queued",
    labels: BY_FAMILY,
    scrape: lastQueued,
  },
  kubeproxy_network_programming_duration_seconds: {
    help: "Time from the change of an endpoint in the cluster to its rules in the kernel",
    buckets: PROGRAMMING_BUCKETS,
    zero: BOTH_FAMILIES,
    synced: ({ report: { triggerTimes, endedAt } }) =>
      triggerTimes.flatMap(({ family, at }) => one(Math.max(0, endedAt - at) / 1000, familyLabel(family))),
  },
  /** kube-proxy counts changes as they arrive; here, the change tracker counts them. */
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: {
    help: "EndpointSlice changes not synced",
    scrape: ({ tracker }) => one(tracker.endpointChanges.unsynced),
  },
  kubeproxy_sync_proxy_rules_endpoint_changes_total: {
    help: "EndpointSlice changes seen",
    scrape: ({ tracker }) => one(tracker.endpointChanges.total),
  },
  kubeproxy_sync_proxy_rules_service_changes_pending: {
    help: "Service changes not yet synced",
    scrape: ({ tracker }) => one(tracker.serviceChanges.unsynced),
  },
  kubeproxy_sync_proxy_rules_service_changes_total: {
    help: "Service changes seen",
    scrape: ({ tracker }) => one(tracker.serviceChanges.total),
  },
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: {
    // kube-proxy's name, which Prometheus' rules reserve for counters.
    kind: "gauge",
    help: "Service ports with a Local policy and no local endpoint",
    zero: BOTH_FAMILIES.flatMap((labels) =>
      POLICIES.map((policy) => ({ ...labels, traffic_policy: policy })),
    ),
    scrape: noLocalEndpoints,
  },
  kubeproxy_sync_proxy_rules_nftables_sync_failures_total: {
    zero: BOTH_FAMILIES,
    help: "Syncs that failed",
    syncFailed: ({ families }) => eachFamily(families, 1),
  },
  kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total: {
    zero: BOTH_FAMILIES,
    help: "Failed clean-ups of stale chains",
    cleanUpFailed: ({ families }) => eachFamily(families, 1),
  },
  kubeproxy_proxy_healthz_total: healthAnswers("/healthz"),
  kubeproxy_proxy_livez_total: healthAnswers("/livez"),
  kubeproxy_conntrack_reconciler_sync_duration_seconds: {
    ...SYNC_DURATION,
    help: "Time to delete stale UDP flows",
    flowsCleaned: ({ duration }) => eachFamily(FAMILIES, duration / 1000),
  },
  kubeproxy_conntrack_reconciler_deleted_entries_total: {
    zero: BOTH_FAMILIES,
    help: "Stale UDP flows that were deleted",
    flowsCleaned: ({ deleted }) => eachFamily(FAMILIES, (family) => deleted[family]),
  },
  kubeproxy_nftables_localhost_nodeport_listeners: {
    help: "NodePorts that the daemon serves at loopback addresses",
    labels: BY_FAMILY,
    scrape: ({ loopback }) => eachFamily(FAMILIES, (family) => loopback.listeners[family]),
  },
  kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total: {
    zero: BOTH_FAMILIES,
    help: "NodePorts that the daemon could not serve at loopback addresses",
    loopbackBindFailed: ({ family }) => one(1, familyLabel(family)),
  },
  /** `code` is an HTTP status, or `<error>` without an answer. */
  rest_client_requests_total: {
    help: "Requests to the API server by status code, method and host",
    labels: ["code", "method", "host"],
    apiRequest: ({ code, method, host }) => one(1, { code, method, host }),
  },
  /** From sending a request to receiving the headers of its answer; `verb` is the HTTP method. */
  rest_client_request_duration_seconds: {
    help: "Time to the answer of a request to the API server",
    labels: ["verb", "host"],
    buckets: REQUEST_BUCKETS,
    apiRequest: ({ method, host, seconds }) => one(seconds, { verb: method, host }),
  },
};

/** @param isTimed whether the histogram counts a sync, given whether that is one of all rules */
function syncDuration(help: string, isTimed: (isFull: boolean) => boolean): Metric {
  const times = (
    isFull: boolean,
    { startedAt, endedAt }: Pick<SyncReport, "startedAt" | "endedAt">,
    families: readonly Family[],
  ) => (isTimed(isFull) ? eachFamily(families, (endedAt - startedAt) / 1000) : []);
  return {
    ...SYNC_DURATION,
    help,
    synced: ({ report, families }) => times(report.kind === "full", report, families),
    syncFailed: ({ failure, families }) => times(failure.isFull, failure, families),
  };
}

function healthAnswers(counted: "/healthz" | "/livez"): Metric {
  return {
    help: `Answers of ${counted} by status`,
    zero: [{ code: "200" }, { code: "503" }],
    healthAnswer: ({ path, status }) => (path === counted ? one(1, { code: String(status) }) : []),
  };
}

function lastQueued({ runner, reconciler }: ScrapedParts): readonly Sample[] {
  const at = runner.lastRequestedAt;
  if (at === undefined) return [];
  const families = FAMILIES.filter((family) => reconciler.state.families[family] !== undefined);
  return eachFamily(families, at / 1000);
}

function noLocalEndpoints({ reconciler }: ScrapedParts): readonly Sample[] {
  return FAMILIES.flatMap((family) => {
    const missing = { internal: 0, external: 0 };
    const rules = reconciler.state.families[family]?.allServicePortRules() ?? [];
    for (const { noLocalEndpoints: policies } of rules) for (const policy of policies) missing[policy]++;
    return POLICIES.flatMap((policy) =>
      one(missing[policy], { ...familyLabel(family), traffic_policy: policy }),
    );
  });
}
