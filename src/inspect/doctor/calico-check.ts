import type { HostDiagnostic } from "./diagnostic.ts";
import type { ForeignChain } from "./foreign-chain.ts";

/** The tables of Felix in its nftables mode, and the prefix of its chains in iptables' tables. */
const FELIX_TABLE = /^ip6? calico$/;
const FELIX_CHAIN = /^cali-/;

/**
 * Whether Calico's Felix depends on a choice that it makes by kube-proxy's tables: with `nftablesMode: Auto` it uses
 * nftables when it finds them, and iptables when they are gone (https://github.com/projectcalico/calico/issues/11629).
 */
export function judgeCalico(chains: readonly ForeignChain[] | undefined): HostDiagnostic[] {
  const tables = new Set((chains ?? []).filter(({ table }) => FELIX_TABLE.test(table)).map(({ table }) => table));
  const hasIptables = (chains ?? []).some(({ table, name }) => !FELIX_TABLE.test(table) && FELIX_CHAIN.test(name));
  if (tables.size === 0 && !hasIptables) return [];
  const found = [
    ...(tables.size > 0 ? [`nftables (${[...tables].sort().join(", ")})`] : []),
    ...(hasIptables ? ["iptables (chains cali-*)"] : []),
  ].join(" and ");
  return [
    {
      check: "calico",
      level: hasIptables ? "warning" : "ok",
      found: `Calico's Felix programs ${found}`,
      means: "with nftablesMode Auto it chooses by kube-proxy's tables, and falls back to iptables without them",
      action:
        "set nftablesMode to Enabled (FelixConfiguration, or linuxDataplane Nftables of the operator's Installation)",
    },
  ];
}
