import { assign, atLeast, CONNECTION_IS_NEW, meta } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import type { BaseChain, Chain } from "../nft/ast/ruleset.ts";
import { LEAST_REGISTER_VALUE } from "./balancers.ts";
import { CLUSTER_IPS_CHECK, MASQUERADING, type StaticChainName } from "./chain-names.ts";
import { loopbackNodePorts, refuseLoopbackNodePorts } from "./loopback.ts";
import type { FamilyContext } from "./node-context.ts";
import { jumpsToVanishedCheck } from "./vanished.ts";

/** nft's names for the priorities: dstnat, filter, srcnat. Source: linux/netfilter_ipv4.h. */
const DSTNAT = -100;
const FILTER = 0;
const SRCNAT = 100;

const jump = (target: StaticChainName): Statement => ({ jump: { target } });
const newJump = (target: StaticChainName): Rule => [CONNECTION_IS_NEW, jump(target)];

/**
 * Our index or id must not leak into the packet's traffic class, which queueing disciplines read: IPv6 forwarding,
 * local output and bridges that call these hooks (br_netfilter) keep it. Smaller values are others' and stay.
 */
const RESET_PRIORITY: Rule = [atLeast(meta("priority"), LEAST_REGISTER_VALUE), assign(meta("priority"), 0)];

function beforeTranslation(context: FamilyContext): Rule[] {
  return [newJump("firewall-check"), ...jumpsToVanishedCheck(context)];
}

/** A chain that does not depend on Services. */
export interface StaticChain extends Chain {
  readonly name: StaticChainName;
}

interface HookedChain {
  readonly name: StaticChainName;
  readonly base: BaseChain;
  readonly rules: (context: FamilyContext) => readonly Rule[];
}

const hook = (type: BaseChain["type"], name: BaseChain["hook"], prio: number): BaseChain => ({
  type,
  hook: name,
  prio,
  policy: "accept",
});

/**
 * The chains in which packets enter: names, hooks and priorities as kube-proxy's, which other software relies on. The
 * firewall and the check for vanished endpoints look before any dnat; the other checks for endpoints look after it, when a
 * balanced packet already bears its endpoint's address.
 */
const HOOKED_CHAINS: readonly HookedChain[] = [
  {
    name: "filter-prerouting-pre-dnat",
    base: hook("filter", "prerouting", DSTNAT - 10),
    rules: beforeTranslation,
  },
  {
    name: "filter-output-pre-dnat",
    base: hook("filter", "output", DSTNAT - 10),
    rules: beforeTranslation,
  },
  {
    name: "filter-input",
    base: hook("filter", "input", FILTER),
    rules: () => [newJump("nodeport-endpoints-check"), newJump("service-endpoints-check"), RESET_PRIORITY],
  },
  {
    name: "filter-forward",
    base: hook("filter", "forward", FILTER),
    rules: () => [newJump("service-endpoints-check"), newJump(CLUSTER_IPS_CHECK), RESET_PRIORITY],
  },
  {
    name: "filter-output",
    base: hook("filter", "output", FILTER),
    rules: (context) => [
      newJump("service-endpoints-check"),
      newJump(CLUSTER_IPS_CHECK),
      ...refuseLoopbackNodePorts(context),
      RESET_PRIORITY,
    ],
  },
  { name: "nat-prerouting", base: hook("nat", "prerouting", DSTNAT), rules: () => [[jump("services")]] },
  {
    name: "nat-output",
    base: hook("nat", "output", DSTNAT),
    rules: (context) => [...loopbackNodePorts(context), [jump("services")]],
  },
  { name: "nat-postrouting", base: hook("nat", "postrouting", SRCNAT), rules: () => [[jump(MASQUERADING)]] },
];

/** The chains in which packets enter, of one family. */
export function baseChains(context: FamilyContext): StaticChain[] {
  return HOOKED_CHAINS.map(({ name, base, rules }) => ({ name, base, rules: rules(context) }));
}
