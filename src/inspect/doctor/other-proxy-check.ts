import { counted, listText } from "../../base/text.ts";
import { diagnostic, type HostDiagnostic } from "./diagnostic.ts";
import type { ForeignChain } from "./foreign-chain.ts";
import { IPVS_INTERFACE, judgeProxyInterfaces, KUBE_ROUTER_INTERFACE } from "./proxy-interfaces.ts";

/** kube-proxy's modes on Linux. */
export type KubeProxyMode = "iptables" | "ipvs" | "nftables";

/** Traces that service proxies leave on a host. */
export interface ProxyTraces {
  /** Undefined when they could not be listed. */
  readonly chains: readonly ForeignChain[] | undefined;
  /** /proc/net/ip_tables_names and ip6_tables_names: tables of the legacy iptables, by name. */
  readonly legacyTables: readonly string[];
  /** The scheduler of each virtual server in /proc/net/ip_vs. */
  readonly ipvsSchedulers: readonly string[];
  /** The names of the interfaces of this network namespace. */
  readonly interfaces: ReadonlySet<string>;
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
    ...foreignIpvs(traces),
    ...judgeProxyInterfaces(traces.interfaces),
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
    ...(traces.interfaces.has(IPVS_INTERFACE) ? [`the interface ${IPVS_INTERFACE}`] : []),
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

/** IPVS of software that serves no Services, such as keepalived. */
function foreignIpvs(traces: ProxyTraces): HostDiagnostic[] {
  const { ipvsSchedulers, interfaces } = traces;
  const isOfProxy = ipvsTraces(traces).length > 0 || interfaces.has(KUBE_ROUTER_INTERFACE);
  if (ipvsSchedulers.length === 0 || isOfProxy) return [];
  const found = `${counted(ipvsSchedulers.length, "IPVS virtual server")} of other software than kube-proxy`;
  return [diagnostic("other-proxy", "ok", found, "no address and port of a Service may be among them")];
}

function warning(found: string, means: string, action: string): HostDiagnostic {
  return { check: "other-proxy", level: "warning", found, means, action };
}
