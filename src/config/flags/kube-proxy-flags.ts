import { quoted } from "../../base/schema-error.ts";
import { HEALTHZ_PORT, METRICS_PORT } from "../defaults.ts";
import { isMarkBit } from "../iptables-masquerade.ts";
import { formatListenAddress, parseListenAddress } from "../listen-address.ts";
import { commanding, type Flag, ignored, overriding, setting } from "./flag.ts";

const IPVS = "it belongs to kube-proxy's ipvs mode";
const API_LIMITS = "nft-proxy makes four long requests and few others, so there is nothing to limit";
const LOG_LINES = "each log line is written to standard error at once";
const MACHINE = "kube-proxy only reports it in its own machine data";

const MODES: readonly string[] = ["", "nftables", "iptables", "ipvs"];

function refuseOtherModes(text: string): string | undefined {
  return MODES.includes(text)
    ? undefined
    : `must be nftables, iptables or ipvs, not ${quoted(text)}; each is run as nftables`;
}

function refuseNoBit(text: string): string | undefined {
  return text !== "" && isMarkBit(Number(text)) ? undefined : `must be an integer from 0 to 31, not ${quoted(text)}`;
}

function portReason(text: string): string | undefined {
  const isPort = /^(?:0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65_535;
  return isPort ? undefined : `must be a port 1..65535, or 0 to switch the server off, not ${quoted(text)}`;
}

/** A flag for a server's address. kube-proxy's help promises that an empty one switches the server off, and it does not. */
function serverFlag(name: string, path: string, description: string): Flag {
  return {
    ...setting(name, "string", path, `${description}; port 0 switches it off`),
    ifEmpty: "is empty, which means its default, as in kube-proxy; port 0 switches the server off",
  };
}

/**
 * A deprecated flag of kube-proxy that sets the port of a server, or switches it off with 0. The port of the successor's
 * address comes before any other, unless it is the default one.
 */
function portFlag(name: string, path: string, successor: string, defaultPort: number): Flag {
  return {
    ...setting(name, "integer", path, `Deprecated: use --${successor}`),
    successor,
    refuse: portReason,
    combine: (current, value) => {
      const listen = parseListenAddress(String(current), defaultPort);
      if (listen === undefined || portReason(String(value)) !== undefined) return current;
      const isUsed = value === 0 || listen.port === defaultPort;
      return isUsed ? formatListenAddress({ ...listen, port: Number(value) }) : current;
    },
  };
}

/**
 * The flags of kube-proxy 1.36. As in kube-proxy, a configuration file overrides all but the node's name, the API server's
 * address and the logging flags, and two of the `--iptables-` flags set the sync periods of nftables mode as well.
 * Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/cmd/kube-proxy/app/options.go
 */
export const KUBE_PROXY_FLAGS: readonly Flag[] = [
  setting("bind-address", "string", "bindAddress", "The node's primary IP, instead of the Node object's"),
  setting("bind-address-hard-fail", "boolean", "bindAddressHardFail", "Exit when a port cannot be listened on"),
  ignored("boot-id-file", "string", MACHINE),
  commanding("cleanup", "boolean", "Remove this proxy's tables and exit"),
  setting(
    "cluster-cidr",
    "string",
    "clusterCIDR",
    "CIDR of the cluster's pods, or one of each family separated by a comma",
  ),
  commanding("config", "string", "File with a KubeProxyConfiguration, which overrides most flags"),
  ignored("config-sync-period", "duration", "watches keep the objects current, so there is nothing to refresh"),
  setting(
    "conntrack-max-per-core",
    "integer",
    "conntrack.maxPerCore",
    "Tracked connections per core, 0 to leave as is",
  ),
  setting("conntrack-min", "integer", "conntrack.min", "Minimum of tracked connections, whatever the number of cores"),
  setting("conntrack-tcp-be-liberal", "boolean", "conntrack.tcpBeLiberal", "Accept TCP packets outside the window"),
  setting(
    "conntrack-tcp-timeout-close-wait",
    "duration",
    "conntrack.tcpCloseWaitTimeout",
    "Timeout of TCP connections in CLOSE_WAIT, 0 to leave as is",
  ),
  setting(
    "conntrack-tcp-timeout-established",
    "duration",
    "conntrack.tcpEstablishedTimeout",
    "Timeout of idle TCP connections, 0 to leave as is",
  ),
  setting(
    "conntrack-udp-timeout",
    "duration",
    "conntrack.udpTimeout",
    "Timeout of UDP flows without an answer, 0 to leave as is",
  ),
  setting(
    "conntrack-udp-timeout-stream",
    "duration",
    "conntrack.udpStreamTimeout",
    "Timeout of answered UDP flows, 0 to leave as is",
  ),
  setting(
    "detect-local-mode",
    "string",
    "detectLocalMode",
    "How to detect traffic of this node's pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
  ),
  setting("feature-gates", "feature-gates", "featureGates", "AllowServiceExternalIPs=false ignores external IPs"),
  serverFlag("healthz-bind-address", "healthzBindAddress", "IP and port of the health checks"),
  portFlag("healthz-port", "healthzBindAddress", "healthz-bind-address", HEALTHZ_PORT),
  { name: "help", alias: "h", type: "boolean", description: "Show this help", target: { kind: "parser" } },
  overriding("hostname-override", "string", "hostnameOverride", "Name of this Node, instead of the host's name"),
  commanding("init-only", "boolean", "Do what needs full root privileges, and exit"),
  ignored("iptables-localhost-nodeports", "boolean", "nodeport-addresses decides it: add localhost"),
  {
    ...setting(
      "iptables-masquerade-bit",
      "integer",
      "iptables.masqueradeBit",
      "The bit of the packet mark that asks for masquerading, 0..31; not with --proxy-mode=nftables",
    ),
    refuse: refuseNoBit,
  },
  setting(
    "iptables-min-sync-period",
    "duration",
    "nftables.minSyncPeriod",
    "Time between two syncs, at least; 0 for four times the length of a sync (10 ms to 1 s)",
  ),
  setting("iptables-sync-period", "duration", "nftables.syncPeriod", "Time between background checks and clean-ups"),
  ignored("ipvs-exclude-cidrs", "list", IPVS),
  ignored("ipvs-min-sync-period", "duration", IPVS),
  setting(
    "ipvs-scheduler",
    "string",
    "ipvs.scheduler",
    "With --proxy-mode=ipvs, the default scheduler: rr, wrr, sh and mh have an equivalent, others are replaced",
  ),
  ignored("ipvs-strict-arp", "boolean", IPVS),
  ignored("ipvs-sync-period", "duration", IPVS),
  ignored("ipvs-tcp-timeout", "duration", IPVS),
  ignored("ipvs-tcpfin-timeout", "duration", IPVS),
  ignored("ipvs-udp-timeout", "duration", IPVS),
  ignored("kube-api-burst", "integer", API_LIMITS),
  ignored("kube-api-content-type", "string", "the API server is always asked for JSON"),
  ignored("kube-api-qps", "float", API_LIMITS),
  setting("kubeconfig", "string", "clientConnection.kubeconfig", "Kubeconfig file, instead of the service account"),
  ignored("log-flush-frequency", "duration", LOG_LINES),
  ignored("log-json-info-buffer-size", "string", LOG_LINES),
  ignored("log-json-split-stream", "boolean", LOG_LINES),
  ignored("log-text-info-buffer-size", "string", LOG_LINES),
  ignored("log-text-split-stream", "boolean", LOG_LINES),
  overriding("logging-format", "string", "logging.format", "Log lines as text or json"),
  ignored("machine-id-file", "string", MACHINE),
  setting("masquerade-all", "boolean", "nftables.masqueradeAll", "Masquerade all traffic to cluster IPs"),
  overriding("master", "string", "nftProxy.master", "URL of the API server, instead of the kubeconfig's"),
  serverFlag("metrics-bind-address", "metricsBindAddress", "IP and port of the metrics and the status page"),
  portFlag("metrics-port", "metricsBindAddress", "metrics-bind-address", METRICS_PORT),
  setting(
    "nodeport-addresses",
    "list",
    "nodePortAddresses",
    "Addresses that serve NodePorts: CIDRs and the words primary, localhost (TCP only) and all, in any mix",
  ),
  setting("oom-score-adj", "integer", "oomScoreAdj", "This process's oom_score_adj, -1000..1000"),
  setting(
    "pod-bridge-interface",
    "string",
    "detectLocal.bridgeInterface",
    "Bridge interface of the pods, for BridgeInterface",
  ),
  setting(
    "pod-interface-name-prefix",
    "string",
    "detectLocal.interfaceNamePrefix",
    "Prefix of the names of the pods' interfaces, for InterfaceNamePrefix",
  ),
  ignored("profiling", "boolean", "there is no pprof in a Node.js process"),
  {
    ...setting("proxy-mode", "string", "mode", "nftables; iptables and ipvs are accepted, and run as nftables"),
    refuse: refuseOtherModes,
  },
  ignored("show-hidden-metrics-for-version", "string", "no metric is hidden"),
  overriding("v", "integer", "logging.verbosity", "Log verbosity; 4 and above is debug"),
  { name: "version", type: "boolean", description: "Show the version", target: { kind: "parser" } },
  ignored("vmodule", "string", "there is one log level for everything"),
  commanding("write-config-to", "string", "Write the effective configuration to this file and exit"),
];
