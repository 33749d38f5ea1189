import { counted } from "../../base/text.ts";
import type { HostDiagnostic } from "./diagnostic.ts";
import type { ForeignChain } from "./foreign-chain.ts";

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
  /** The interface kube-ipvs0 is there. */
  readonly ipvsInterface: boolean;
}

/** The modes of kube-proxy that certainly left these traces. */
export function tracedModes(traces: ProxyTraces): KubeProxyMode[] {
  const found: Readonly<Record<KubeProxyMode, readonly unknown[]>> = {
    iptables: iptablesTables(traces),
    ipvs: ipvsMode(traces),
    nftables: nftablesTables(traces),
  };
  return (Object.keys(found) as KubeProxyMode[]).filter((mode) => found[mode].length > 0);
}

const ACTION = "if it has been replaced: stop it on this node, then";

/** Whether another service proxy's rules work beside ours. */
export function judgeOtherProxies(traces: ProxyTraces): HostDiagnostic[] {
  const found = [...unlisted(traces), ...nftablesMode(traces), ...iptablesMode(traces), ...ipvsMode(traces)];
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

function iptablesTables({ chains = [] }: ProxyTraces): string[] {
  return [...new Set(chains.flatMap(({ table, name }) => (name === "KUBE-SERVICES" ? [table] : [])))];
}

function iptablesMode(traces: ProxyTraces): HostDiagnostic[] {
  const { legacyTables } = traces;
  const tables = iptablesTables(traces);
  const findings: HostDiagnostic[] = [];
  if (tables.length > 0) {
    findings.push(
      warning(
        `the chain KUBE-SERVICES of kube-proxy's iptables mode is in ${tables.join(", ")}`,
        "whichever of both translates a connection first wins",
        `${ACTION} kube-proxy --cleanup, or restart the node`,
      ),
    );
  }
  if (legacyTables.length > 0) {
    findings.push(
      warning(
        `legacy iptables has tables: ${legacyTables.join(", ")}`,
        "kube-proxy's rules may be in them, where nft cannot see them",
        "look with `iptables-legacy-save | grep KUBE-SERVICES`; to remove them, kube-proxy --cleanup, or restart the node",
      ),
    );
  }
  return findings;
}

function ipvsMode({ ipvsSchedulers, ipvsInterface }: ProxyTraces): HostDiagnostic[] {
  const found = [
    ...(ipvsSchedulers.length > 0 ? [counted(ipvsSchedulers.length, "IPVS virtual server")] : []),
    ...(ipvsInterface ? ["the interface kube-ipvs0"] : []),
  ];
  if (found.length === 0) return [];
  return [
    warning(
      `kube-proxy's ipvs mode has left ${found.join(" and ")}`,
      "addresses of Services are this node's own, and IPVS answers where nft-proxy does not translate",
      `${ACTION} kube-proxy --cleanup, or restart the node`,
    ),
  ];
}

function warning(found: string, means: string, action: string): HostDiagnostic {
  return { check: "other-proxy", level: "warning", found, means, action };
}
