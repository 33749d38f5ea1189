import {
  CONNECTION_HAS_DNAT,
  CONNECTION_IS_ESTABLISHED,
  matches,
  randomNumber,
} from "../../nft/ast/expression.ts";
import type { Rule } from "../../nft/ast/json.ts";
import type { RulesetPart, Settings } from "../../ruleset/node-context.ts";

/** The name of the feature, of its flow table, and of the chain that puts connections into it. */
export const FEATURE = "fast-path";

/** The default of the mean number of a client's packets before its connection takes the fast path. */
export const DEFAULT_AFTER = 20;

/** The values of the feature's options. */
export interface FastPathSettings {
  readonly fastPath?: boolean;
  readonly fastPathAfter?: number;
  /** Names with an asterisk at the end for any suffix; empty for the default ones. */
  readonly fastPathInterfaces?: readonly string[];
}

export const rules = {
  name: FEATURE,
  isAlways: () => true,
  chains: ({ settings }) => [{ name: FEATURE, rules: [offload(packetsBefore(settings))] }],
  // Every packet passes the flow tables of both families. At equal priority, the one created last comes
  // first. The IPv4 table is first, which saves IPv4 packets 0.1 of 29.2 thousand instructions a round trip.
  flowtable: (family) => ({ name: FEATURE, hook: "ingress", prio: family === "ip" ? -1 : 0 }),
  onKnown: { goto: { target: FEATURE } },
  needs: {
    name: "flow tables",
    hint: "load or build the kernel modules nf_flow_table, nf_flow_table_inet and nft_flow_offload (CONFIG_NF_FLOW_TABLE, CONFIG_NFT_FLOW_OFFLOAD)",
    // Before Linux 5.14, a TCP connection that is idle for 30 s leaves its flow table with 120 s to live
    // instead of a day, and breaks after that. No rule can detect this, but `last` was also added in 5.14.
    release: {
      name: "flow tables that preserve the connection timeouts",
      hint: "use Linux 5.14 or newer: older kernels break connections that are idle for 150 seconds",
      statement: { last: null },
    },
    consequence: "--fast-path has no effect: no connection takes the fast path",
  },
} satisfies RulesetPart;

/** Mean number of a client's packets before its connection takes the fast path. */
export function packetsBefore(settings: Settings): number {
  return (settings as FastPathSettings).fastPathAfter ?? DEFAULT_AFTER;
}

/**
 * Offloads translated connections. It samples one packet in N from their clients, so that short connections
 * seldom pay for it. `ct packets` would make the kernel count the packets of every connection of the node,
 * which costs short ones 1 % (nf_conntrack_acct). Replies leave the chain immediately. The kernel accepts
 * only TCP and UDP.
 */
function offload(after: number): Rule {
  return [
    matches({ ct: { key: "direction" } }, "original"),
    CONNECTION_HAS_DNAT,
    CONNECTION_IS_ESTABLISHED,
    matches(randomNumber(after, 0), 0),
    { flow: { op: "add", flowtable: `@${FEATURE}` } },
  ];
}
