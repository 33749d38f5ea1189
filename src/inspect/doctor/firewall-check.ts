import { type HostFinding, judgeAll, type Row } from "./finding.ts";
import type { ForeignChain, HostFacts } from "./host-facts.ts";

/** The effect on Services of a chain that drops by default, by its hook. */
const DROPS: Readonly<Record<string, string>> = {
  ingress:
    "it sees packets before all else: NodePorts and external addresses that it does not accept are dead",
  prerouting:
    "it sees packets before or beside our translation: NodePorts and external addresses may be dead",
  input: "connections to endpoints on this node's own address are dropped unless it accepts their port",
  forward:
    "connections to pods are dropped unless it accepts them, with their address and port after translation",
  postrouting: "every connection that leaves this node or goes to a pod is dropped unless it accepts it",
  egress: "every packet that leaves by its interface is dropped unless it accepts it",
  output: "connections of this node itself to Services are dropped unless it accepts them",
};

const ACTION =
  "let it accept the Services' traffic (`ct status dnat accept` does in forward and input); an accept of ours does not overrule its drop";

/** firewalld's table with its backend nftables, and a chain that it has with its backend iptables. */
const FIREWALLD_TABLE = "inet firewalld";
const FIREWALLD_CHAIN = "INPUT_ZONES";

const ROWS: readonly Row<HostFacts["chains"]>[] = [
  {
    check: "firewall",
    level: "warning",
    when: (chains) => chains === undefined,
    found: "unknown: the chains of this host could not be listed",
    means: "chains of other software that drop the Services' traffic would not be seen",
    action: "see nft above; it needs root or CAP_NET_ADMIN in the node's network namespace",
  },
  {
    // firewalld's policy is accept; it rejects with the last rule of its chains, which are not looked into. Its chains accept
    // connections whose destination was translated, unless it is told not to (firewalld 2.3, `StrictForwardPorts`), or is old.
    check: "firewall",
    level: "warning",
    when: (chains = []) =>
      chains.some(({ table, name }) => table === FIREWALLD_TABLE || name === FIREWALLD_CHAIN),
    found: "firewalld is active",
    means:
      "connections through Services pass (without StrictForwardPorts=yes); those to pods' own addresses are rejected where its zones do not allow them",
    action:
      "put the pods' CIDRs into its zone `trusted`: firewall-cmd --permanent --zone=trusted --add-source=CIDR",
  },
];

/**
 * Whether somebody's base chain drops what it does not know. In nftables every base chain of a hook has its say, and
 * one drop ends the packet whatever the others accepted. `chains` is undefined when they could not be listed.
 */
export function judgeFirewalls(chains: HostFacts["chains"]): HostFinding[] {
  const found = [...(chains ?? []).flatMap(judgeChain), ...judgeAll(ROWS, chains)];
  if (found.length > 0) return found;
  return [{ check: "firewall", level: "ok", found: "no base chain of others drops by default" }];
}

/** Service proxies are judged by themselves, and no Service needs a packet of ARP. */
const NO_FIREWALL = /^ip6? (?:nft-proxy|kube-proxy)$|^arp /;

function judgeChain({ table, name, base }: ForeignChain): HostFinding[] {
  const means = DROPS[base?.hook ?? ""];
  if (base?.policy !== "drop" || means === undefined || NO_FIREWALL.test(table)) return [];
  const found = `table ${table}, chain ${name} (hook ${base.hook}, priority ${base.prio}) drops by default`;
  return [{ check: "firewall", level: "warning", found, means, action: ACTION }];
}
