import type { HostChain } from "../../features/seam/feature.ts";
import { type Finding, type HostFinding, named, ok, unlistedChains, warning } from "./finding.ts";
import type { HostFacts } from "./host-facts.ts";

/** Effect on Services of a chain that drops by default, by its hook. */
const DROPS: Readonly<Record<string, string>> = {
  ingress: "it runs before all others: NodePorts and external addresses that it does not accept do not work",
  prerouting: "it runs before or alongside our translation: NodePorts and external addresses may not work",
  input: "connections to endpoints on this node's own address are dropped unless it accepts their port",
  forward:
    "connections to pods are dropped unless it accepts them, with their address and port after translation",
  postrouting: "connections that leave this node or go to a pod are dropped unless it accepts them",
  egress: "packets that leave through its interface are dropped unless it accepts them",
  output: "connections of this node itself to Services are dropped unless it accepts them",
};

const ACTION =
  "make it accept traffic of Services (`ct status dnat accept` in forward and input); nft-proxy cannot override its drop";

/** firewalld's table with the backend nftables, and one of its chains with the backend iptables. */
const FIREWALLD_TABLE = "inet firewalld";
const FIREWALLD_CHAIN = "INPUT_ZONES";

/**
 * Checks for base chains of other software that drop by default. In nftables every base chain of a hook sees
 * a packet, and one drop ends it, even if all others accept it. `chains` is undefined if they could not be
 * listed.
 */
export function judgeFirewalls(chains: HostFacts["chains"]): HostFinding[] {
  const found =
    chains === undefined
      ? [unlistedChains("chains of other software that drop traffic of Services are not reported")]
      : [...chains.flatMap(judgeChain), ...judgeFirewalld(chains)];
  return named(
    "firewall",
    found.length > 0 ? found : [ok("no base chain of other software drops by default")],
  );
}

/**
 * firewalld's policy is accept; the last rule of its chains rejects, and rules are not read here. Its chains
 * accept translated connections, except with `StrictForwardPorts` (firewalld 2.3) and in old versions.
 */
function judgeFirewalld(chains: readonly HostChain[]): Finding[] {
  if (!chains.some(({ table, name }) => table === FIREWALLD_TABLE || name === FIREWALLD_CHAIN)) return [];
  return [
    warning(
      "firewalld is active",
      "connections through Services pass (without StrictForwardPorts=yes); direct connections to pods are rejected unless its zones allow them",
      "add the pods' CIDRs to its zone `trusted`: firewall-cmd --permanent --zone=trusted --add-source=CIDR",
    ),
  ];
}

/** Service proxies have a check of their own, and Services do not depend on ARP. */
const NO_FIREWALL = /^ip6? (?:nft-proxy|kube-proxy)$|^arp /;

function judgeChain({ table, name, base }: HostChain): Finding[] {
  const means = DROPS[base?.hook ?? ""];
  if (base?.policy !== "drop" || means === undefined || NO_FIREWALL.test(table)) return [];
  const found = `table ${table}, chain ${name} (hook ${base.hook}, priority ${base.prio}) drops by default`;
  return [warning(found, means, ACTION)];
}
