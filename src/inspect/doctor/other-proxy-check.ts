import { counted, listText } from "../../base/text.ts";
import { type CostlyTable, costlyTablesAdvice } from "../../kernel/others-sets.ts";
import { type Finding, type HostFinding, named, ok, unlistedChains, warning } from "./finding.ts";
import type { HostFacts } from "./host-facts.ts";

/** kube-proxy's modes on Linux. */
export type KubeProxyMode = "iptables" | "ipvs" | "nftables";

/** Traces of service proxies on a host. */
export type ProxyTraces = Pick<HostFacts, "chains" | "legacyTables" | "ipvsSchedulers" | "interfaces">;

/** The interface of kube-proxy's ipvs mode, with the addresses of all Services. */
const IPVS_INTERFACE = "kube-ipvs0";

/** The interface of kube-router's service proxy, with the addresses of all Services. */
const KUBE_ROUTER_INTERFACE = "kube-dummy-if";

const BOTH = "two service proxies translate the same connections, and either may win";
const REPLACED = "if it has been replaced: stop it on this node, then";

/** Checks for rules of other service proxies besides ours. */
export function judgeOtherProxies(traces: ProxyTraces): HostFinding[] {
  const found = [...kubeProxyFindings(traces), ...otherProxyFindings(traces)];
  return named("other-proxy", found.length > 0 ? found : [ok("no other service proxy has left rules here")]);
}

function* kubeProxyFindings(traces: ProxyTraces): Generator<Finding> {
  const { nftables, iptables, ipvs } = tracesByMode(traces);
  if (traces.chains === undefined)
    yield unlistedChains("rules of kube-proxy's nftables and iptables modes are not reported");
  if (nftables.length > 0)
    yield warning(
      `kube-proxy's tables exist: ${nftables.join(", ")}`,
      "harmless while kube-proxy runs; stale once it is gone, and its rules may then still redirect connections",
      `${REPLACED} nft-proxy cleanup --kube-proxy`,
    );
  if (iptables.length > 0)
    yield warning(
      `the chain KUBE-SERVICES of kube-proxy's iptables mode is in ${iptables.join(", ")}`,
      "whichever translates a connection first wins",
      `${REPLACED} kube-proxy --cleanup, or restart the node`,
    );
  // kube-proxy translates in the table nat; iptables-legacy creates any table that it lists.
  if (traces.legacyTables.includes("nat"))
    yield warning(
      `legacy iptables has tables: ${traces.legacyTables.join(", ")}`,
      "kube-proxy's rules may be in them, where nft cannot see them",
      "check with `iptables-legacy-save | grep KUBE-SERVICES`; to remove them, kube-proxy --cleanup, or restart the node",
    );
  if (ipvs.length > 0)
    yield warning(
      `kube-proxy's ipvs mode has left ${listText([...virtualServers(traces), ...ipvs])}`,
      "addresses of Services are this node's own, and IPVS answers where nft-proxy does not translate",
      `${REPLACED} kube-proxy --cleanup, or restart the node`,
    );
}

function* otherProxyFindings(traces: ProxyTraces): Generator<Finding> {
  const { interfaces } = traces;
  const servers = virtualServers(traces);
  // IPVS of software that serves no Services, such as keepalived.
  if (servers.length > 0 && ipvsTraces(traces).length === 0 && !interfaces.has(KUBE_ROUTER_INTERFACE))
    yield ok(
      `${listText(servers)} of other software than kube-proxy`,
      "no address and port of a Service may be among them",
    );
  if (interfaces.has(KUBE_ROUTER_INTERFACE))
    yield warning(
      `the interface ${KUBE_ROUTER_INTERFACE} of kube-router's service proxy exists`,
      BOTH,
      "run kube-router with --run-service-proxy=false and restart the node, or remove nft-proxy",
    );
  if (interfaces.has("bpfout.cali"))
    yield warning(
      "the interface bpfout.cali of Calico's eBPF data plane exists",
      BOTH,
      "set bpfEnabled to false (FelixConfiguration), or remove nft-proxy",
    );
  if (interfaces.has("cilium_host"))
    yield ok(
      "Cilium is on this node (interface cilium_host)",
      "it balances pods' connections to ClusterIPs itself, and with kubeProxyReplacement everything that nft-proxy does",
      "make sure that kubeProxyReplacement is false",
    );
}

/** Returns the modes of kube-proxy that certainly left these traces. */
export function tracedModes(traces: ProxyTraces): KubeProxyMode[] {
  const found = tracesByMode(traces);
  return (Object.keys(found) as KubeProxyMode[]).filter((mode) => found[mode].length > 0);
}

/** What each mode of kube-proxy, and no other software, has left. */
function tracesByMode(traces: ProxyTraces): Readonly<Record<KubeProxyMode, readonly string[]>> {
  const tables = new Set(traces.chains?.map(({ table }) => table));
  return {
    iptables: iptablesTables(traces),
    ipvs: ipvsTraces(traces),
    nftables: [...tables].filter((table) => /^ip6? kube-proxy$/.test(table)),
  };
}

function tablesWith(chain: string, { chains = [] }: ProxyTraces): string[] {
  return [...new Set(chains.flatMap(({ table, name }) => (name === chain ? [table] : [])))];
}

/**
 * Returns the tables of iptables mode. ipvs mode also has a chain KUBE-SERVICES, in addition to
 * KUBE-NODE-PORT; iptables mode has KUBE-NODEPORTS. Source: {@link
 * https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/proxy/ipvs/proxier.go}
 */
function iptablesTables(traces: ProxyTraces): string[] {
  const [own, ipvs] = [tablesWith("KUBE-NODEPORTS", traces), tablesWith("KUBE-NODE-PORT", traces)];
  return tablesWith("KUBE-SERVICES", traces).filter((table) => own.includes(table) || !ipvs.includes(table));
}

/** Returns traces of kube-proxy's ipvs mode that no other software leaves. */
function ipvsTraces(traces: ProxyTraces): string[] {
  const tables = tablesWith("KUBE-NODE-PORT", traces);
  return [
    ...(traces.interfaces.has(IPVS_INTERFACE) ? [`the interface ${IPVS_INTERFACE}`] : []),
    ...(tables.length > 0 ? [`chains in ${listText(tables)}`] : []),
  ];
}

function virtualServers({ ipvsSchedulers }: ProxyTraces): string[] {
  return ipvsSchedulers.length > 0 ? [counted(ipvsSchedulers.length, "IPVS virtual server")] : [];
}

/** Tables of Felix in nftables mode, and the prefix of its chains in iptables' tables. */
const FELIX_TABLE = /^ip6? calico$/;
const FELIX_CHAIN = /^cali-/;

/**
 * Reports which tables Calico's Felix uses. With `nftablesMode: Auto` it uses nftables if kube-proxy's tables
 * exist, and iptables without them (https://github.com/projectcalico/calico/issues/11629).
 */
export function judgeCalico(chains: HostFacts["chains"] = []): HostFinding[] {
  const own = chains.map(({ table }) => table).filter((table) => FELIX_TABLE.test(table));
  const tables = [...new Set(own)].sort();
  const hasIptables = chains.some(({ table, name }) => !FELIX_TABLE.test(table) && FELIX_CHAIN.test(name));
  const used = [
    ...(tables.length > 0 ? [`nftables (${tables.join(", ")})`] : []),
    ...(hasIptables ? ["iptables (chains cali-*)"] : []),
  ];
  if (used.length === 0) return [];
  return named("calico", [
    (hasIptables ? warning : ok)(
      `Calico's Felix programs ${used.join(" and ")}`,
      "with nftablesMode Auto it uses iptables once kube-proxy's tables are gone",
      "set nftablesMode to Enabled (FelixConfiguration, or linuxDataplane Nftables of the operator's Installation)",
    ),
  ]);
}

/** Reports tables of other software that make transactions slow. */
export function judgeCostlyTables(tables: readonly CostlyTable[]): HostFinding[] {
  const findings = tables.map((one) =>
    warning(
      `table ${one.table} has ${counted(one.sets, "set")}`,
      `nft reads them for each change of both IP families and in most other calls: some ${one.ms} ms of CPU time`,
      costlyTablesAdvice([one]),
    ),
  );
  return named("other-sets", findings);
}
