import type { HostDiagnostic } from "./diagnostic.ts";
import type { ForeignChain } from "./foreign-chain.ts";

/** The effect on Services of a chain that drops by default, by its hook. */
const DROPS: Readonly<Record<string, string>> = {
  ingress: "it sees packets before all else: NodePorts and external addresses that it does not accept are dead",
  prerouting: "it sees packets before or beside our translation: NodePorts and external addresses may be dead",
  input: "connections to endpoints on this node's own address are dropped unless it accepts their port",
  forward: "connections to pods are dropped unless it accepts them, with their address and port after translation",
  postrouting: "every connection that leaves this node or goes to a pod is dropped unless it accepts it",
  egress: "every packet that leaves by its interface is dropped unless it accepts it",
  output: "connections of this node itself to Services are dropped unless it accepts them",
};

const ACTION =
  "let it accept the Services' traffic (`ct status dnat accept` does in forward and input); an accept of ours does not overrule its drop";

/** firewalld's table with its backend nftables, and a chain that it has with its backend iptables. */
const FIREWALLD_TABLE = "inet firewalld";
const FIREWALLD_CHAIN = "INPUT_ZONES";

/**
 * Whether somebody's base chain drops what it does not know. In nftables every base chain of a hook has its say, and
 * one drop ends the packet whatever the others accepted. `chains` is undefined when they could not be listed.
 */
export function judgeFirewalls(chains: readonly ForeignChain[] | undefined): HostDiagnostic[] {
  if (chains === undefined) {
    return [
      {
        check: "firewall",
        level: "warning",
        found: "unknown: the chains of this host could not be listed",
        means: "chains of other software that drop the Services' traffic would not be seen",
        action: "see nft above; it needs root or CAP_NET_ADMIN in the node's network namespace",
      },
    ];
  }
  const findings = [...chains.flatMap(judgeChain), ...judgeFirewalld(chains)];
  return findings.length > 0
    ? findings
    : [{ check: "firewall", level: "ok", found: "no base chain of others drops by default" }];
}

function judgeChain({ table, name, base }: ForeignChain): HostDiagnostic[] {
  const means = DROPS[base?.hook ?? ""];
  if (base?.policy !== "drop" || means === undefined || isServiceProxy(table) || isArp(table)) return [];
  const found = `table ${table}, chain ${name} (hook ${base.hook}, priority ${base.prio}) drops by default`;
  return [{ check: "firewall", level: "warning", found, means, action: ACTION }];
}

/**
 * firewalld's policy is accept; it rejects with the last rule of its chains, which are not looked into. Its chains accept
 * connections whose destination was translated, unless it is told not to (firewalld 2.3, `StrictForwardPorts`), or is old.
 */
function judgeFirewalld(chains: readonly ForeignChain[]): HostDiagnostic[] {
  const isActive = chains.some(({ table, name }) => table === FIREWALLD_TABLE || name === FIREWALLD_CHAIN);
  if (!isActive) return [];
  return [
    {
      check: "firewall",
      level: "warning",
      found: "firewalld is active",
      means:
        "connections through Services pass (without StrictForwardPorts=yes); those to pods' own addresses are rejected where its zones do not allow them",
      action: "put the pods' CIDRs into its zone `trusted`: firewall-cmd --permanent --zone=trusted --add-source=CIDR",
    },
  ];
}

/** Tables of ARP packets, which no Service needs to pass. */
function isArp(table: string): boolean {
  return table.startsWith("arp ");
}

function isServiceProxy(table: string): boolean {
  return /^ip6? (?:nft-proxy|kube-proxy)$/.test(table);
}
