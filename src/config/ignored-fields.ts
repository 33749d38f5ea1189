import { formatDuration, parseDuration } from "../base/duration.ts";
import { type ConfigWarning, ignoredWarning } from "./diagnostic.ts";
import { valueAt } from "./field-path.ts";

/** A field of KubeProxyConfiguration that has no effect here. */
export interface IgnoredField {
  readonly path: string;
  /** The reason, as a clause. */
  readonly reason: string;
  /** Values besides the zero value that need no warning: kube-proxy's defaults, and the behaviour of nft-proxy. */
  readonly harmless?: readonly unknown[];
}

const IPTABLES = "it belongs to kube-proxy's iptables mode; see the section nftables";
const IPVS = "it belongs to kube-proxy's ipvs mode";
const WINDOWS = "it belongs to kube-proxy on Windows";
const API_LIMITS = "nft-proxy makes four long requests and few others, so there is nothing to limit";
const LOG_LINES = "each log line is written to standard error at once";

/** The fields of KubeProxyConfiguration v1alpha1 without effect. */
export const IGNORED_FIELDS: readonly IgnoredField[] = [
  { path: "clientConnection.acceptContentTypes", reason: "the API server is always asked for JSON" },
  {
    path: "clientConnection.contentType",
    reason: "the API server is always asked for JSON",
    harmless: ["application/json", "application/vnd.kubernetes.protobuf"],
  },
  { path: "clientConnection.burst", reason: API_LIMITS, harmless: [10] },
  { path: "clientConnection.qps", reason: API_LIMITS, harmless: [5] },
  {
    path: "configSyncPeriod",
    reason: "watches keep the objects current, so there is nothing to refresh",
    harmless: ["15m0s"],
  },
  { path: "enableProfiling", reason: "there is no pprof in a Node.js process" },
  { path: "iptables.localhostNodePorts", reason: "nodePortAddresses decides it: add localhost", harmless: [true] },
  { path: "iptables.minSyncPeriod", reason: IPTABLES, harmless: ["1s"] },
  { path: "iptables.snatNodeInternalIP", reason: IPTABLES },
  { path: "iptables.syncPeriod", reason: IPTABLES, harmless: ["30s"] },
  { path: "ipvs.excludeCIDRs", reason: IPVS },
  { path: "ipvs.minSyncPeriod", reason: IPVS },
  { path: "ipvs.strictARP", reason: IPVS },
  { path: "ipvs.syncPeriod", reason: IPVS, harmless: ["30s"] },
  { path: "ipvs.tcpFinTimeout", reason: IPVS },
  { path: "ipvs.tcpTimeout", reason: IPVS },
  { path: "ipvs.udpTimeout", reason: IPVS },
  { path: "logging.flushFrequency", reason: LOG_LINES, harmless: ["5s", 5_000_000_000] },
  { path: "logging.options", reason: LOG_LINES },
  { path: "logging.vmodule", reason: "there is one log level for everything" },
  { path: "portRange", reason: "it belonged to kube-proxy's userspace mode" },
  { path: "showHiddenMetricsForVersion", reason: "no metric is hidden" },
  { path: "windowsRunAsService", reason: WINDOWS },
  { path: "winkernel.enableDSR", reason: WINDOWS },
  { path: "winkernel.forwardHealthCheckVip", reason: WINDOWS },
  { path: "winkernel.networkName", reason: WINDOWS },
  { path: "winkernel.rootHnsEndpointName", reason: WINDOWS },
  { path: "winkernel.sourceVip", reason: WINDOWS },
];

/** How fields of KubeProxyConfiguration v1alpha1 are honoured whose meaning differs from kube-proxy's, by path. */
export const TRANSLATED_FIELDS: Readonly<Record<string, string>> = {
  clusterCIDR: "validated with detectLocalMode ClusterCIDR only",
  "conntrack.maxPerCore": "`nf_conntrack_max` is raised to it, and never lowered",
  "conntrack.min": "`nf_conntrack_max` is raised to it, and never lowered",
  healthzBindAddress: "port 0 switches the server off, which a file for kube-proxy cannot",
  metricsBindAddress: "port 0 switches the server off, which a file for kube-proxy cannot",
  "featureGates.AllowServiceExternalIPs": "false ignores `spec.externalIPs`; other gates are ignored with a warning",
  "iptables.masqueradeAll": "in every mode but nftables, as in kube-proxy",
  "iptables.masqueradeBit": "in every mode but nftables, as in kube-proxy, unless nftables.masqueradeBit is given",
  "ipvs.scheduler": "with mode ipvs: rr, wrr, sh and mh have an equivalent, others are replaced with a warning",
  "logging.verbosity": "4 and above is the level debug",
  mode: 'nftables; "", iptables and ipvs are accepted with a warning, and run as nftables',
};

/** Returns a warning for each ignored field of a document whose value is not harmless. */
export function ignoredFieldWarnings(document: object): ConfigWarning[] {
  return IGNORED_FIELDS.filter(({ path, harmless = [] }) => {
    const value = valueAt(document, path);
    return !isZero(value) && !harmless.includes(normal(value));
  }).map(({ path, reason }) => ignoredWarning(path, reason));
}

/** Returns true for Go's zero values, including durations and quantities, and for objects and lists of such values. */
function isZero(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.values(value).every(isZero);
  if (typeof value === "string") return value === "" || parseDuration(value) === 0;
  return !value;
}

/** Returns durations as Go prints them, so that `15m` equals `15m0s` in the table. */
function normal(value: unknown): unknown {
  const duration = typeof value === "string" ? parseDuration(value) : undefined;
  return duration === undefined ? value : formatDuration(duration);
}
