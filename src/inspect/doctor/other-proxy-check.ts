import { counted, listText } from "../../base/text.ts";
import { type CostlyTable, costlyTablesAdvice } from "../../kernel/others-sets.ts";
import { type HostFinding, judge, judgeAll, type Row, UNLISTED_CHAINS } from "./finding.ts";
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

const ROWS: readonly Row<ProxyTraces>[] = (
  [
    {
      // Without a listing, rules of kube-proxy's nftables and iptables modes are not visible.
      ...UNLISTED_CHAINS,
      means: "rules of kube-proxy's nftables and iptables modes are not reported",
    },
    {
      level: "warning",
      when: (traces) => nftablesTables(traces).length > 0,
      found: (traces) => `kube-proxy's tables exist: ${nftablesTables(traces).join(", ")}`,
      means:
        "harmless while kube-proxy runs; stale once it is gone, and its rules may then still redirect connections",
      action: `${REPLACED} nft-proxy cleanup --kube-proxy`,
    },
    {
      level: "warning",
      when: (traces) => iptablesTables(traces).length > 0,
      found: (traces) =>
        `the chain KUBE-SERVICES of kube-proxy's iptables mode is in ${iptablesTables(traces).join(", ")}`,
      means: "whichever translates a connection first wins",
      action: `${REPLACED} kube-proxy --cleanup, or restart the node`,
    },
    {
      // kube-proxy translates in the table nat; iptables-legacy creates any table that it lists.
      level: "warning",
      when: ({ legacyTables }) => legacyTables.includes("nat"),
      found: ({ legacyTables }) => `legacy iptables has tables: ${legacyTables.join(", ")}`,
      means: "kube-proxy's rules may be in them, where nft cannot see them",
      action:
        "check with `iptables-legacy-save | grep KUBE-SERVICES`; to remove them, kube-proxy --cleanup, or restart the node",
    },
    {
      level: "warning",
      when: (traces) => ipvsTraces(traces).length > 0,
      found: (traces) =>
        `kube-proxy's ipvs mode has left ${listText([...virtualServers(traces), ...ipvsTraces(traces)])}`,
      means: "addresses of Services are this node's own, and IPVS answers where nft-proxy does not translate",
      action: `${REPLACED} kube-proxy --cleanup, or restart the node`,
    },
    {
      // IPVS of software that serves no Services, such as keepalived.
      level: "ok",
      when: (traces) =>
        virtualServers(traces).length > 0 &&
        ipvsTraces(traces).length === 0 &&
        !traces.interfaces.has(KUBE_ROUTER_INTERFACE),
      found: (traces) => `${listText(virtualServers(traces))} of other software than kube-proxy`,
      means: "no address and port of a Service may be among them",
    },
    {
      level: "warning",
      when: ({ interfaces }) => interfaces.has(KUBE_ROUTER_INTERFACE),
      found: `the interface ${KUBE_ROUTER_INTERFACE} of kube-router's service proxy exists`,
      means: BOTH,
      action: "run kube-router with --run-service-proxy=false and restart the node, or remove nft-proxy",
    },
    {
      level: "warning",
      when: ({ interfaces }) => interfaces.has("bpfout.cali"),
      found: "the interface bpfout.cali of Calico's eBPF data plane exists",
      means: BOTH,
      action: "set bpfEnabled to false (FelixConfiguration), or remove nft-proxy",
    },
    {
      level: "ok",
      when: ({ interfaces }) => interfaces.has("cilium_host"),
      found: "Cilium is on this node (interface cilium_host)",
      means:
        "it balances pods' connections to ClusterIPs itself, and with kubeProxyReplacement everything that nft-proxy does",
      action: "make sure that kubeProxyReplacement is false",
    },
  ] satisfies readonly Omit<Row<ProxyTraces>, "check">[]
).map((row) => ({ check: "other-proxy", ...row }));

/** Checks for rules of other service proxies besides ours. */
export function judgeOtherProxies(traces: ProxyTraces): HostFinding[] {
  const found = judgeAll(ROWS, traces);
  if (found.length > 0) return found;
  return [{ check: "other-proxy", level: "ok", found: "no other service proxy has left rules here" }];
}

/** Returns the modes of kube-proxy that certainly left these traces. */
export function tracedModes(traces: ProxyTraces): KubeProxyMode[] {
  const found: Readonly<Record<KubeProxyMode, readonly unknown[]>> = {
    iptables: iptablesTables(traces),
    ipvs: ipvsTraces(traces),
    nftables: nftablesTables(traces),
  };
  return (Object.keys(found) as KubeProxyMode[]).filter((mode) => found[mode].length > 0);
}

function nftablesTables({ chains = [] }: ProxyTraces): string[] {
  return [...new Set(chains.map(({ table }) => table))].filter((table) => /^ip6? kube-proxy$/.test(table));
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

interface FelixTraces {
  /** Its tables of nftables mode. */
  readonly tables: readonly string[];
  /** Whether it has chains in iptables' tables. */
  readonly hasIptables: boolean;
}

const FELIX = {
  check: "calico",
  found: ({ tables, hasIptables }: FelixTraces) =>
    `Calico's Felix programs ${[
      ...(tables.length > 0 ? [`nftables (${tables.join(", ")})`] : []),
      ...(hasIptables ? ["iptables (chains cali-*)"] : []),
    ].join(" and ")}`,
  means: "with nftablesMode Auto it uses iptables once kube-proxy's tables are gone",
  action:
    "set nftablesMode to Enabled (FelixConfiguration, or linuxDataplane Nftables of the operator's Installation)",
} as const;

const CALICO_ROWS: readonly Row<FelixTraces>[] = [
  { ...FELIX, level: "warning", when: ({ hasIptables }) => hasIptables },
  { ...FELIX, level: "ok", when: ({ tables }) => tables.length > 0 },
];

/**
 * Reports which tables Calico's Felix uses. With `nftablesMode: Auto` it uses nftables if kube-proxy's tables
 * exist, and iptables without them (https://github.com/projectcalico/calico/issues/11629).
 */
export function judgeCalico(chains: HostFacts["chains"]): HostFinding[] {
  const tables = new Set((chains ?? []).map(({ table }) => table).filter((table) => FELIX_TABLE.test(table)));
  const hasIptables = (chains ?? []).some(
    ({ table, name }) => !FELIX_TABLE.test(table) && FELIX_CHAIN.test(name),
  );
  return judge(CALICO_ROWS, { tables: [...tables].sort(), hasIptables });
}

const COSTLY_ROWS: readonly Row<CostlyTable>[] = [
  {
    check: "other-sets",
    level: "warning",
    found: ({ table, sets }) => `table ${table} has ${counted(sets, "set")}`,
    means: ({ ms }) =>
      `nft reads them for each change of both IP families and in most other calls: some ${ms} ms of CPU time`,
    action: (table) => costlyTablesAdvice([table]),
  },
];

/** Reports tables of other software that make transactions slow. */
export function judgeCostlyTables(tables: readonly CostlyTable[]): HostFinding[] {
  return tables.flatMap((table) => judge(COSTLY_ROWS, table));
}
