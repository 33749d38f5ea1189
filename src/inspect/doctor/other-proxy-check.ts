import { counted, listText } from "../../base/text.ts";
import type { HostDiagnostic } from "./diagnostic.ts";
import type { ForeignChain } from "./foreign-chain.ts";

/** kube-proxy's modes on Linux. */
export type KubeProxyMode = "iptables" | "ipvs" | "nftables";

/** Interfaces that service proxies make for themselves. */
export const PROXY_INTERFACES = {
  /** kube-proxy's ipvs mode. */
  ipvs: "kube-ipvs0",
  kubeRouter: "kube-dummy-if",
  /** Felix with `bpfEnabled`, which replaces kube-proxy. */
  calicoBpf: "bpfout.cali",
  /** Cilium, with and without `kubeProxyReplacement`. */
  cilium: "cilium_host",
} as const;

/** Traces that service proxies leave on a host. */
export interface ProxyTraces {
  /** Undefined when they could not be listed. */
  readonly chains: readonly ForeignChain[] | undefined;
  /** /proc/net/ip_tables_names and ip6_tables_names: tables of the legacy iptables, by name. */
  readonly legacyTables: readonly string[];
  /** The scheduler of each virtual server in /proc/net/ip_vs. */
  readonly ipvsSchedulers: readonly string[];
  /** Those of {@link PROXY_INTERFACES} that are there. */
  readonly interfaces: readonly string[];
}

/** The modes of kube-proxy that certainly left these traces. */
export function tracedModes(traces: ProxyTraces): KubeProxyMode[] {
  const found: Readonly<Record<KubeProxyMode, readonly unknown[]>> = {
    iptables: iptablesTables(traces),
    ipvs: ipvsTraces(traces),
    nftables: nftablesTables(traces),
  };
  return (Object.keys(found) as KubeProxyMode[]).filter((mode) => found[mode].length > 0);
}

const ACTION = "if it has been replaced: stop it on this node, then";

/** Whether another service proxy's rules work beside ours. */
export function judgeOtherProxies(traces: ProxyTraces): HostDiagnostic[] {
  const found = [
    ...unlisted(traces),
    ...nftablesMode(traces),
    ...iptablesMode(traces),
    ...legacyMode(traces),
    ...ipvsMode(traces),
    ...otherSoftware(traces),
  ];
  return found.length > 0
    ? found
    : [{ check: "other-proxy", level: "ok", found: "no other service proxy has left rules here" }];
}

/** Without a listing, kube-proxy's nftables and iptables modes cannot be seen. */
function unlisted({ chains }: ProxyTraces): HostDiagnostic[] {
  if (chains !== undefined) return [];
  return [
    warning(
      "unknown: the chains of this host could not be listed",
      "rules of kube-proxy's nftables and iptables modes would not be seen",
      "see nft above; it needs root or CAP_NET_ADMIN in the node's network namespace",
    ),
  ];
}

function nftablesTables({ chains = [] }: ProxyTraces): string[] {
  return [...new Set(chains.map(({ table }) => table))].filter((table) => /^ip6? kube-proxy$/.test(table));
}

function nftablesMode(traces: ProxyTraces): HostDiagnostic[] {
  const tables = nftablesTables(traces);
  if (tables.length === 0) return [];
  return [
    warning(
      `kube-proxy's tables are there: ${tables.join(", ")}`,
      "harmless while kube-proxy runs; stale once it is gone, and then a connection may go where its rules say",
      `${ACTION} nft-proxy cleanup --kube-proxy`,
    ),
  ];
}

/** The tables that have a chain, each once. */
function tablesWith(chain: string, { chains = [] }: ProxyTraces): string[] {
  return [...new Set(chains.flatMap(({ table, name }) => (name === chain ? [table] : [])))];
}

/**
 * kube-proxy's ipvs mode has a chain KUBE-SERVICES as well, beside KUBE-NODE-PORT; that of iptables mode is KUBE-NODEPORTS.
 * Source: {@link https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/proxy/ipvs/proxier.go}
 */
function iptablesTables(traces: ProxyTraces): string[] {
  const [own, ipvs] = [tablesWith("KUBE-NODEPORTS", traces), tablesWith("KUBE-NODE-PORT", traces)];
  return tablesWith("KUBE-SERVICES", traces).filter((table) => own.includes(table) || !ipvs.includes(table));
}

/** The traces of kube-proxy's ipvs mode that no other software leaves. */
function ipvsTraces(traces: ProxyTraces): string[] {
  const tables = tablesWith("KUBE-NODE-PORT", traces);
  return [
    ...(traces.interfaces.includes(PROXY_INTERFACES.ipvs) ? [`the interface ${PROXY_INTERFACES.ipvs}`] : []),
    ...(tables.length > 0 ? [`chains in ${listText(tables)}`] : []),
  ];
}

function iptablesMode(traces: ProxyTraces): HostDiagnostic[] {
  const tables = iptablesTables(traces);
  if (tables.length === 0) return [];
  return [
    warning(
      `the chain KUBE-SERVICES of kube-proxy's iptables mode is in ${tables.join(", ")}`,
      "whichever of both translates a connection first wins",
      `${ACTION} kube-proxy --cleanup, or restart the node`,
    ),
  ];
}

/** kube-proxy translates in the table nat; any look with iptables-legacy makes the table that it looks at. */
function legacyMode({ legacyTables }: ProxyTraces): HostDiagnostic[] {
  if (!legacyTables.includes("nat")) return [];
  return [
    warning(
      `legacy iptables has tables: ${legacyTables.join(", ")}`,
      "kube-proxy's rules may be in them, where nft cannot see them",
      "look with `iptables-legacy-save | grep KUBE-SERVICES`; to remove them, kube-proxy --cleanup, or restart the node",
    ),
  ];
}

function ipvsMode(traces: ProxyTraces): HostDiagnostic[] {
  const { ipvsSchedulers } = traces;
  const found = ipvsTraces(traces);
  if (found.length === 0) return [];
  const servers = ipvsSchedulers.length > 0 ? [counted(ipvsSchedulers.length, "IPVS virtual server")] : [];
  return [
    warning(
      `kube-proxy's ipvs mode has left ${listText([...servers, ...found])}`,
      "addresses of Services are this node's own, and IPVS answers where nft-proxy does not translate",
      `${ACTION} kube-proxy --cleanup, or restart the node`,
    ),
  ];
}

function otherSoftware(traces: ProxyTraces): HostDiagnostic[] {
  const { ipvsSchedulers, interfaces } = traces;
  const has = (name: keyof typeof PROXY_INTERFACES) => interfaces.includes(PROXY_INTERFACES[name]);
  const both = "two service proxies translate the same connections, and either may win";
  const findings: HostDiagnostic[] = [];
  if (has("kubeRouter")) {
    const found = `kube-router's interface ${PROXY_INTERFACES.kubeRouter} is there`;
    findings.push(
      warning(
        found,
        both,
        "run kube-router with --run-service-proxy=false and restart the node, or go without nft-proxy",
      ),
    );
  } else if (ipvsSchedulers.length > 0 && ipvsTraces(traces).length === 0) {
    const found = `${counted(ipvsSchedulers.length, "IPVS virtual server")}, not of kube-proxy, which has an interface`;
    const means =
      "IPVS takes connections to its virtual servers, such as keepalived's, unless they are Services' as well";
    findings.push({ check: "other-proxy", level: "ok", found, means });
  }
  if (has("calicoBpf")) {
    const found = `Calico's eBPF data plane is on (interface ${PROXY_INTERFACES.calicoBpf})`;
    findings.push(warning(found, both, "set bpfEnabled to false (FelixConfiguration), or go without nft-proxy"));
  }
  if (has("cilium")) {
    const found = `Cilium is on this node (interface ${PROXY_INTERFACES.cilium})`;
    const means =
      "it balances pods' connections to ClusterIPs itself; with kubeProxyReplacement it does everything that nft-proxy does";
    const action = "make sure that kubeProxyReplacement is false";
    findings.push({ check: "other-proxy", level: "ok", found, means, action });
  }
  return findings;
}

function warning(found: string, means: string, action: string): HostDiagnostic {
  return { check: "other-proxy", level: "warning", found, means, action };
}
