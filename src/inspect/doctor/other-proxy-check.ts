import { counted, listText } from "../../base/text.ts";
import { type CostlyTable, costlyTablesAdvice } from "../../kernel/others-sets.ts";
import { type Finding, type HostFinding, named, ok, unlistedChains, warning } from "./finding.ts";
import type { HostFacts } from "./host-facts.ts";

/** kube-proxy's modes on Linux. */
export type KubeProxyMode = "iptables" | "ipvs" | "nftables";

/** Traces of service proxies on a host. */
export type ProxyTraces = Pick<HostFacts, "chains" | "legacyTables" | "ipvsSchedulers" | "interfaces">;

const BOTH = "two service proxies translate the same connections, and either may win";
const REPLACED = "if it has been replaced: stop it on this node, then";

/** Checks for rules of other service proxies besides ours. */
export function judgeOtherProxies(traces: ProxyTraces): HostFinding[] {
  const found = [...proxyFindings(traces)];
  return named("other-proxy", found.length > 0 ? found : [ok("no other service proxy has left rules here")]);
}

function* proxyFindings(traces: ProxyTraces): Generator<Finding> {
  const { chains, interfaces, legacyTables, ipvsSchedulers } = traces;
  const { nftables, iptables, ipvs } = tracesByMode(traces);
  const servers = ipvsSchedulers.length > 0 ? [counted(ipvsSchedulers.length, "IPVS virtual server")] : [];
  // kube-router's interface with the addresses of all Services, like kube-ipvs0 of kube-proxy's ipvs mode.
  const hasKubeRouter = interfaces.has("kube-dummy-if");
  if (chains === undefined)
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
  if (legacyTables.includes("nat"))
    yield warning(
      `legacy iptables has tables: ${legacyTables.join(", ")}`,
      "kube-proxy's rules may be in them, where nft cannot see them",
      "check with `iptables-legacy-save | grep KUBE-SERVICES`; to remove them, kube-proxy --cleanup, or restart the node",
    );
  if (ipvs.length > 0)
    yield warning(
      `kube-proxy's ipvs mode has left ${listText([...servers, ...ipvs])}`,
      "addresses of Services are this node's own, and IPVS answers where nft-proxy does not translate",
      `${REPLACED} kube-proxy --cleanup, or restart the node`,
    );
  // IPVS of software that serves no Services, such as keepalived.
  if (ipvs.length === 0 && servers.length > 0 && !hasKubeRouter)
    yield ok(
      `${listText(servers)} of other software than kube-proxy`,
      "no address and port of a Service may be among them",
    );
  if (hasKubeRouter)
    yield warning(
      "the interface kube-dummy-if of kube-router's service proxy exists",
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
function tracesByMode({
  chains = [],
  interfaces,
}: ProxyTraces): Readonly<Record<KubeProxyMode, readonly string[]>> {
  const tablesWith = (chain: string) => [
    ...new Set(chains.flatMap(({ table, name }) => (name === chain ? [table] : []))),
  ];
  const tables = new Set(chains.map(({ table }) => table));
  const [ofIptables, ofIpvs] = [tablesWith("KUBE-NODEPORTS"), tablesWith("KUBE-NODE-PORT")];
  return {
    // Both modes have a chain KUBE-SERVICES; iptables mode also KUBE-NODEPORTS, ipvs mode KUBE-NODE-PORT.
    // Source: https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/proxy/ipvs/proxier.go
    iptables: tablesWith("KUBE-SERVICES").filter(
      (table) => ofIptables.includes(table) || !ofIpvs.includes(table),
    ),
    ipvs: [
      ...(interfaces.has("kube-ipvs0") ? ["the interface kube-ipvs0"] : []),
      ...(ofIpvs.length > 0 ? [`chains in ${listText(ofIpvs)}`] : []),
    ],
    nftables: [...tables].filter((table) => /^ip6? kube-proxy$/.test(table)),
  };
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
