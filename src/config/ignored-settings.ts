import { formatDuration, parseDuration } from "../base/duration.ts";
import type { Document, Flag, FlagType } from "../base/option.ts";
import { valueAt } from "./configuration.ts";
import { ignoredWarning } from "./invalid-value.ts";
import { FEATURE_FIELDS } from "./other-modes.ts";

/** A setting of kube-proxy that has no effect here: a field of the file, a flag, or both. */
interface IgnoredSetting {
  readonly path?: string;
  readonly flag?: readonly [name: string, type: FlagType];
  /** The reason, as a clause. */
  readonly reason: string;
  /**
   * Values besides the zero value that need no warning: kube-proxy's defaults, and the behaviour of
   * nft-proxy.
   */
  readonly harmless?: readonly unknown[];
}

/** A field of KubeProxyConfiguration that has no effect here. */
export type IgnoredField = IgnoredSetting & { readonly path: string };

const IPTABLES = "it belongs to kube-proxy's iptables mode; see the section nftables";
const IPVS = "it belongs to kube-proxy's ipvs mode";
const WINDOWS = "it belongs to kube-proxy on Windows";
const API_LIMITS = "nft-proxy makes four long requests and few others, so there is nothing to limit";
const LOG_LINES = "each log line is written to standard error immediately";
const JSON_ONLY = "the API server is always asked for JSON";
const MACHINE = "kube-proxy only reports it in its own machine data";

/** The settings of kube-proxy 1.36 that the core does not use. */
const SETTINGS: readonly IgnoredSetting[] = [
  { flag: ["boot-id-file", "string"], reason: MACHINE },
  { path: "clientConnection.acceptContentTypes", reason: JSON_ONLY },
  {
    path: "clientConnection.contentType",
    flag: ["kube-api-content-type", "string"],
    reason: JSON_ONLY,
    harmless: ["application/json", "application/vnd.kubernetes.protobuf"],
  },
  { path: "clientConnection.burst", flag: ["kube-api-burst", "integer"], reason: API_LIMITS, harmless: [10] },
  { path: "clientConnection.qps", flag: ["kube-api-qps", "float"], reason: API_LIMITS, harmless: [5] },
  {
    path: "configSyncPeriod",
    flag: ["config-sync-period", "duration"],
    reason: "watches keep the objects current, so there is nothing to refresh",
    harmless: ["15m0s"],
  },
  {
    path: "enableProfiling",
    flag: ["profiling", "boolean"],
    reason: "Node.js processes have no pprof",
  },
  {
    path: "iptables.localhostNodePorts",
    flag: ["iptables-localhost-nodeports", "boolean"],
    reason: "use nodePortAddresses (--nodeport-addresses) instead: add localhost",
    harmless: [true],
  },
  { path: "iptables.minSyncPeriod", reason: IPTABLES, harmless: ["1s"] },
  { path: "iptables.snatNodeInternalIP", reason: IPTABLES },
  { path: "iptables.syncPeriod", reason: IPTABLES, harmless: ["30s"] },
  { path: "ipvs.excludeCIDRs", flag: ["ipvs-exclude-cidrs", "list"], reason: IPVS },
  { path: "ipvs.minSyncPeriod", flag: ["ipvs-min-sync-period", "duration"], reason: IPVS },
  { path: "ipvs.scheduler", flag: ["ipvs-scheduler", "string"], reason: IPVS },
  { path: "ipvs.strictARP", flag: ["ipvs-strict-arp", "boolean"], reason: IPVS },
  { path: "ipvs.syncPeriod", flag: ["ipvs-sync-period", "duration"], reason: IPVS, harmless: ["30s"] },
  { path: "ipvs.tcpFinTimeout", flag: ["ipvs-tcpfin-timeout", "duration"], reason: IPVS },
  { path: "ipvs.tcpTimeout", flag: ["ipvs-tcp-timeout", "duration"], reason: IPVS },
  { path: "ipvs.udpTimeout", flag: ["ipvs-udp-timeout", "duration"], reason: IPVS },
  {
    path: "logging.flushFrequency",
    flag: ["log-flush-frequency", "duration"],
    reason: LOG_LINES,
    harmless: ["5s", 5_000_000_000],
  },
  { path: "logging.options", reason: LOG_LINES },
  { flag: ["log-json-info-buffer-size", "string"], reason: LOG_LINES },
  { flag: ["log-json-split-stream", "boolean"], reason: LOG_LINES },
  { flag: ["log-text-info-buffer-size", "string"], reason: LOG_LINES },
  { flag: ["log-text-split-stream", "boolean"], reason: LOG_LINES },
  { path: "logging.vmodule", flag: ["vmodule", "string"], reason: "there is one log level for everything" },
  { flag: ["machine-id-file", "string"], reason: MACHINE },
  { path: "portRange", reason: "it belonged to kube-proxy's userspace mode" },
  {
    path: "showHiddenMetricsForVersion",
    flag: ["show-hidden-metrics-for-version", "string"],
    reason: "no metric is hidden",
  },
  { path: "windowsRunAsService", reason: WINDOWS },
  { path: "winkernel.enableDSR", reason: WINDOWS },
  { path: "winkernel.forwardHealthCheckVip", reason: WINDOWS },
  { path: "winkernel.networkName", reason: WINDOWS },
  { path: "winkernel.rootHnsEndpointName", reason: WINDOWS },
  { path: "winkernel.sourceVip", reason: WINDOWS },
];

/** Those that no feature uses. */
const IGNORED = SETTINGS.filter(({ path }) => !FEATURE_FIELDS.some((field) => field.path === path));

/** The fields of KubeProxyConfiguration v1alpha1 without effect. */
export const IGNORED_FIELDS: readonly IgnoredField[] = IGNORED.filter(
  (setting): setting is IgnoredField => setting.path !== undefined,
);

/** The flags of kube-proxy that are accepted without effect. */
export const IGNORED_FLAGS: readonly Flag[] = IGNORED.flatMap(({ flag, reason }) => {
  if (flag === undefined) return [];
  const [name, type] = flag;
  const target = { kind: "ignored" as const, reason };
  return [{ name, type, description: `Accepted and ignored: ${reason}`, target }];
});

/** Returns a warning for each ignored field of a document whose value is not harmless. */
export function ignoredFieldWarnings(document: Document): string[] {
  return IGNORED_FIELDS.filter(({ path, harmless = [] }) => {
    const value = valueAt(document, path);
    return !isZero(value) && !harmless.includes(normal(value));
  }).map(({ path, reason }) => ignoredWarning(path, reason));
}

/**
 * Returns true for Go's zero values, including durations and quantities, and for objects and lists of such
 * values.
 */
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
