import { parseDuration } from "../base/duration.ts";
import type { ByFamily } from "../base/family.ts";
import {
  boolean,
  choice,
  type Document,
  duration,
  type Field,
  integer,
  MOST_31_BITS,
  MOST_32_BITS,
  type Option,
  optionOf,
  overriding,
  own,
  setting,
  text,
  valid,
} from "../base/option.ts";
import { FEATURES } from "../features/registry.ts";
import { FEATURE_NAMES, featureItems, parseFeatures } from "../features/selection.ts";
import { MAX_SERVICE_ELEMENTS, SHARED_BUDGET } from "../model/budgets.ts";
import type { EnabledFeatures } from "../model/features.ts";
import { canonicalAddress } from "../model/ip.ts";
import {
  type NodePortSelection,
  nodePortAddressList,
  parseClusterCIDRs,
  parseNodePortAddresses,
} from "./addresses.ts";
import { detectLocal, HEALTHZ_PORT, METRICS_PORT, server, serviceExternalIPs } from "./composed-options.ts";
import { MODE_FIELDS, masqueradeSettings } from "./other-modes.ts";

/**
 * Maximum of the element budgets: a Service port with a list has at least three elements, and each family has
 * 4,194,303 ids of lists.
 */
const MOST_ELEMENTS = 12_000_000;

/**
 * The options of nft-proxy: a row for each, with its field of KubeProxyConfiguration v1alpha1 or of our
 * section `nftProxy`, its default, flag, valid values and when a change of it takes effect. Types, schema,
 * defaults, flags, help, completion, printing, hot reload and deploy/reference.md are derived from these
 * rows. A change takes effect immediately if it only concerns the ruleset or the pace of syncs; the other
 * options are bound to parts that are created at the start. Source of the defaults:
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/proxy/apis/config/v1alpha1/defaults.go, of the
 * flags: https://github.com/kubernetes/kubernetes/blob/v1.36.2/cmd/kube-proxy/app/options.go
 */
export const OPTIONS = {
  /** The name of our Node, lower case; "" for the host's own name. */
  hostnameOverride: text({
    path: "hostnameOverride",
    format: "node-name",
    parse: (name) => name.trim().toLowerCase(),
    preset: "",
    flag: overriding("hostname-override", "Name of this Node, instead of the host's name"),
  }),
  /**
   * The node's primary address, overriding the Node object's; `0.0.0.0` or `::` for no override. Not a listen
   * address.
   */
  bindAddress: text({
    path: "bindAddress",
    format: "ip-or-empty",
    parse: (address) => valid(canonicalAddress(address)),
    preset: "0.0.0.0",
    flag: setting("bind-address", "The node's primary IP, instead of the Node object's"),
  }),
  /** The address of the health checks; undefined if they are switched off. */
  healthzBindAddress: server({
    path: "healthzBindAddress",
    hosts: { ip: "0.0.0.0", ip6: "::" },
    port: HEALTHZ_PORT,
    flag: overriding("healthz-bind-address", "IP and port of the health checks"),
    portFlag: "healthz-port",
  }),
  /** The address of metrics and the status page; undefined if they are switched off. */
  metricsBindAddress: server({
    path: "metricsBindAddress",
    hosts: { ip: "127.0.0.1", ip6: "::1" },
    port: METRICS_PORT,
    flag: overriding("metrics-bind-address", "IP and port of the metrics and the status page"),
    portFlag: "metrics-port",
  }),
  bindAddressHardFail: boolean({
    path: "bindAddressHardFail",
    preset: false,
    flag: setting("bind-address-hard-fail", "Exit if a port cannot be opened"),
  }),
  /** The location of the API server. */
  client: {
    /** Path of a kubeconfig file; "" for the Pod's service account. */
    kubeconfig: text({
      path: "clientConnection.kubeconfig",
      format: "path",
      preset: "",
      flag: setting("kubeconfig", "Kubeconfig file, instead of the service account"),
    }),
    /** URL of the API server that overrides the kubeconfig's; "" for none. */
    master: text({
      path: "nftProxy.master",
      format: "url-or-empty",
      preset: "",
      flag: overriding("master", "URL of the API server, instead of the kubeconfig's"),
    }),
  },
  /** At most one CIDR of each family. Other modes of `detectLocal` do not use them, and accept any text. */
  clusterCIDRs: optionOf<string, ByFamily<readonly string[]>>(
    {
      path: "clusterCIDR",
      preset: "",
      flag: setting("cluster-cidr", "CIDR of the cluster's pods, or one per IP family separated by a comma"),
      reload: "now",
      note: "validated with detectLocalMode ClusterCIDR only",
    },
    {
      schema: { type: "string" },
      flagType: "string",
      parse: (cidrs) => parseClusterCIDRs(cidrs) ?? { ip: [], ip6: [] },
      print: ({ ip, ip6 }) => [...ip, ...ip6].join(","),
    },
  ),
  detectLocal: detectLocal(),
  /** Serve `spec.externalIPs` of Services; false for the feature gate AllowServiceExternalIPs=false. */
  serviceExternalIPs: serviceExternalIPs(),
  nodePortAddresses: optionOf<readonly string[], NodePortSelection>(
    {
      path: "nodePortAddresses",
      preset: ["primary"],
      flag: setting(
        "nodeport-addresses",
        "Addresses that serve NodePorts: CIDRs and the words primary, localhost (TCP only) and all, in any mix",
      ),
      reload: "now",
    },
    {
      schema: { type: "array", items: { type: "string", format: "node-port-address" } },
      flagType: "list",
      isUnset: (list) => Array.isArray(list) && list.length === 0,
      parse: (list) => valid(parseNodePortAddresses(list)),
      print: nodePortAddressList,
    },
  ),
  masqueradeAll: boolean({
    path: "nftables.masqueradeAll",
    preset: (given: Document) => masqueradeSettings(given).masqueradeAll,
    isUnset: (value) => value === false,
    flag: setting("masquerade-all", "Masquerade all traffic to cluster IPs"),
    reload: "now",
  }),
  /** The bit of the packet mark that requests masquerading, 0..31. */
  masqueradeBit: integer({
    path: "nftables.masqueradeBit",
    between: [0, 31],
    preset: (given: Document) => masqueradeSettings(given).masqueradeBit,
  }),
  syncPeriodMs: duration({
    path: "nftables.syncPeriod",
    format: "timer-duration",
    preset: "30s",
    isUnset: (value) => parseDuration(String(value)) === 0,
    flag: setting("iptables-sync-period", "Time between background checks and clean-ups"),
    reload: "now",
  }),
  /** Minimum time between the starts of two syncs; 0 for a pause that follows the length of the last sync. */
  minSyncPeriodMs: duration({
    path: "nftables.minSyncPeriod",
    format: "timer-duration",
    preset: "0s",
    flag: setting(
      "iptables-min-sync-period",
      "Minimum time between two syncs; 0 for four times the duration of a sync (10 ms to 0.25 s)",
    ),
    reload: "now",
  }),
  fullResyncPeriodMs: duration({
    path: "nftProxy.fullResyncPeriod",
    format: "timer-duration-not-zero",
    preset: "1h0m0s",
    flag: "Time between two full comparisons with the kernel",
    reload: "now",
  }),
  conntrack: {
    /** Entries per CPU core. 0 also switches `min` off. */
    maxPerCore: integer({
      path: "conntrack.maxPerCore",
      between: [0, MOST_31_BITS],
      preset: 32_768,
      flag: setting("conntrack-max-per-core", "Tracked connections per core, 0 to leave as is"),
      note: "`nf_conntrack_max` is raised to it, and never lowered",
    }),
    min: integer({
      path: "conntrack.min",
      between: [0, MOST_31_BITS],
      preset: 131_072,
      flag: setting("conntrack-min", "Minimum number of tracked connections, for any number of cores"),
      note: "`nf_conntrack_max` is raised to it, and never lowered",
    }),
    tcpEstablishedTimeoutMs: duration({
      path: "conntrack.tcpEstablishedTimeout",
      format: "kernel-timeout",
      preset: "24h0m0s",
      flag: setting("conntrack-tcp-timeout-established", "Timeout of idle TCP connections, 0 to leave as is"),
    }),
    tcpCloseWaitTimeoutMs: duration({
      path: "conntrack.tcpCloseWaitTimeout",
      format: "kernel-timeout",
      preset: "1h0m0s",
      flag: setting(
        "conntrack-tcp-timeout-close-wait",
        "Timeout of TCP connections in CLOSE_WAIT, 0 to leave as is",
      ),
    }),
    udpTimeoutMs: duration({
      path: "conntrack.udpTimeout",
      format: "kernel-timeout",
      preset: "0s",
      flag: setting("conntrack-udp-timeout", "Timeout of UDP flows without an answer, 0 to leave as is"),
    }),
    udpStreamTimeoutMs: duration({
      path: "conntrack.udpStreamTimeout",
      format: "kernel-timeout",
      preset: "0s",
      flag: setting("conntrack-udp-timeout-stream", "Timeout of answered UDP flows, 0 to leave as is"),
    }),
    /** Set `nf_conntrack_tcp_be_liberal`. */
    tcpBeLiberal: boolean({
      path: "conntrack.tcpBeLiberal",
      preset: false,
      flag: setting("conntrack-tcp-be-liberal", "Accept TCP packets outside the window"),
    }),
  },
  oomScoreAdj: integer({
    path: "oomScoreAdj",
    between: [-1000, 1000],
    preset: -999,
    flag: setting("oom-score-adj", "This process's oom_score_adj, -1000..1000"),
  }),
  logFormat: choice({
    path: "logging.format",
    words: ["text", "json"],
    preset: "text",
    flag: overriding("logging-format", "Log lines as text or json"),
  }),
  /** klog's `-v`; see {@link logLevel}. */
  logVerbosity: integer({
    path: "logging.verbosity",
    between: [0, MOST_32_BITS],
    preset: 0,
    flag: overriding("v", "Log verbosity; 4 and above is debug"),
    reload: "now",
    note: "4 and above is the level debug",
  }),
  /** Keep NodePorts in `net.ipv4.ip_local_reserved_ports`. */
  reserveNodePorts: boolean({
    path: "nftProxy.reserveNodePorts",
    preset: false,
    flag: own(
      "reserve-nodeports",
      "Keep outgoing connections from taking NodePorts: adds these to net.ipv4.ip_local_reserved_ports",
    ),
    reload: "now",
  }),
  /** The features that annotations of tenants drive, and where. */
  features: optionOf<readonly string[], EnabledFeatures>(
    {
      path: "nftProxy.features",
      preset: ["none"],
      flag: `Features that annotations may use: all, none, or some of ${FEATURE_NAMES.join(", ")}; with @NAMESPACE only in this namespace`,
    },
    {
      schema: { type: "array", items: { type: "string", format: "feature" } },
      flagType: "list",
      values: ["all", "none", ...FEATURE_NAMES],
      parse: (list) => valid(parseFeatures(list)),
      print: featureItems,
    },
  ),
  affinityMapSize: integer({
    path: "nftProxy.affinityMapSize",
    between: [1, MOST_32_BITS],
    preset: 1_048_576,
    flag: "Maximum number of clients that session affinity remembers, per IP family",
  }),
  maxAffinityTimeoutMs: duration({
    path: "nftProxy.maxAffinityTimeout",
    format: "affinity-timeout",
    preset: "24h0m0s",
    flag: "Longest timeout of session affinity; a Service with a longer timeoutSeconds has this one (1s to 24h)",
    reload: "now",
  }),
  /** The options that only one feature has. */
  settings: Object.fromEntries(FEATURES.flatMap(({ options = {} }) => Object.entries(options))),
  maxServiceElements: integer({
    path: "nftProxy.maxServiceElements",
    between: [1, MOST_32_BITS],
    preset: MAX_SERVICE_ELEMENTS,
    flag: "Maximum number of elements in the kernel for one Service, counted from its ports, addresses and endpoints; beyond it, it gets no rules",
    reload: "now",
  }),
  maxElements: integer({
    path: "nftProxy.maxElements",
    between: [1, MOST_ELEMENTS],
    preset: SHARED_BUDGET.maxElements,
    flag: "Maximum number of elements in the kernel for all Services together; beyond it, the newest Services get no rules",
    reload: "now",
  }),
  maxNamespaceElements: integer({
    path: "nftProxy.maxNamespaceElements",
    between: [1, MOST_ELEMENTS],
    preset: SHARED_BUDGET.maxNamespaceElements,
    flag: "Maximum number of elements in the kernel for the Services of one namespace; beyond it, its newest Services get no rules",
    reload: "now",
  }),
  /** A second address of the health checks; undefined for none. */
  secondHealthzBindAddress: server({
    path: "nftProxy.secondHealthzBindAddress",
    hosts: { ip: "0.0.0.0", ip6: "::" },
    port: HEALTHZ_PORT,
    flag: own(
      "second-healthz-bind-address",
      "A second IP and port of the health checks, which another program may still have: for kube-proxy's port during a migration",
    ),
  }),
  /** The Unix socket on which the daemon answers the other commands, a path; "" for none. */
  daemonSocket: text({
    path: "nftProxy.daemonSocket",
    format: "path",
    preset: "/run/nft-proxy/daemon.sock",
    flag: {
      ...own("daemon-socket", "Unix socket on which the daemon answers other commands; empty for none"),
      takesEmpty: true,
    },
  }),
  nftPath: text({
    path: "nftProxy.nftPath",
    format: "path",
    preset: "nft",
    flag: "The nft program: a path, or a name that is looked up in PATH",
  }),
};

type ValuesOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Option<infer Value> ? Value : ValuesOf<Table[Name]>;
};

/**
 * The validated options of nft-proxy. Durations are in milliseconds (fractions possible), addresses and CIDRs
 * canonical. Names and meanings are those of KubeProxyConfiguration v1alpha1 where it has such a field.
 */
export type ProxyOptions = ValuesOf<typeof OPTIONS>;

/** An option with its name; within a section such as `conntrack`, that of the section comes first. */
export type NamedOption = readonly [name: string, option: Option<unknown>];

/** Every option by its name: `nftPath`, `conntrack.min`. */
export const NAMED_OPTIONS: readonly NamedOption[] = Object.entries(OPTIONS).flatMap(([name, entry]) =>
  isOption(entry)
    ? [[name, entry]]
    : Object.entries(entry).map(([key, option]) => [`${name}.${key}`, option]),
);

function isOption(entry: object): entry is Option<unknown> {
  return "fields" in entry;
}

/** Every field of the configuration that has an effect. */
export const FIELDS: readonly Field[] = [
  ...MODE_FIELDS,
  ...NAMED_OPTIONS.flatMap(([, { fields }]) => fields),
];

/** Returns the log level of klog's `-v`: Kubernetes calls 4 and above debug verbosity. */
export function logLevel(verbosity: number): "info" | "debug" {
  return verbosity >= 4 ? "debug" : "info";
}
