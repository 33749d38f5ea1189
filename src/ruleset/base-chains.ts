import { assign, atLeast, CONNECTION_HAS_DNAT, CONNECTION_IS_NOT_NEW, meta } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import type { BaseChain, Chain } from "../nft/ast/ruleset.ts";
import { CLUSTER_IPS_CHECK, MASQUERADING, type StaticChainName } from "./chain-names.ts";
import { TO_FAST_PATH } from "./fast-path.ts";
import { LEAST_REGISTER_VALUE } from "./list-ids.ts";
import { loopbackNodePorts, refuseLoopbackNodePorts } from "./loopback.ts";
import type { FamilyContext } from "./node-context.ts";
import { jumpsToVanishedCheck } from "./vanished.ts";

/** nft's names for the priorities: dstnat, filter, srcnat. Source: linux/netfilter_ipv4.h. */
const DSTNAT = -100;
const FILTER = 0;
const SRCNAT = 100;

const jump = (target: StaticChainName): Rule => [{ jump: { target } }];

const ACCEPT: Statement = { accept: null };

/** Chains that look at new connections only spare all other packets the rest. */
const UNLESS_NEW: Rule = [CONNECTION_IS_NOT_NEW, ACCEPT];

/**
 * Our ids must not leak into the packet's traffic class, which queueing disciplines read: IPv6 forwarding, local output and
 * bridges that call these hooks (br_netfilter) keep it. Smaller values are others' and stay.
 */
export const RESET_PRIORITY: Rule = [
  atLeast(meta("priority"), LEAST_REGISTER_VALUE),
  assign(meta("priority"), 0),
];

/** What was translated has an endpoint, and its address is no Service's any more. */
const UNLESS_TRANSLATED: Rule = [CONNECTION_HAS_DNAT, ACCEPT];

const CHECKED_IF_NEW: readonly Rule[] = [RESET_PRIORITY, UNLESS_TRANSLATED];

/** Of a new connection; others are accepted before. */
const CHECKED: readonly Rule[] = [UNLESS_NEW, ...CHECKED_IF_NEW];

/** A chain that does not depend on Services. */
export interface StaticChain extends Chain {
  readonly name: StaticChainName;
}

interface HookedChain {
  readonly name: StaticChainName;
  readonly base: BaseChain;
  /** None where there is nothing to do: a chain without rules would cost every packet of the node. */
  readonly rules: (context: FamilyContext) => readonly Rule[];
}

const hook = (type: BaseChain["type"], name: BaseChain["hook"], prio: number): BaseChain => ({
  type,
  hook: name,
  prio,
  policy: "accept",
});

/**
 * The chains in which packets enter: names, hooks and priorities as kube-proxy's, which other software relies on. The check
 * for vanished endpoints looks before any dnat; the other checks for endpoints look after it, when a balanced packet already
 * bears its endpoint's address. Source ranges are looked at on the way to an endpoint (kube-proxy: before any dnat, in chains
 * that every packet of the node passes): nat chains see the first packets of connections alone.
 */
const HOOKED_CHAINS: readonly HookedChain[] = [
  {
    name: "filter-prerouting-pre-dnat",
    base: hook("filter", "prerouting", DSTNAT - 10),
    rules: jumpsToVanishedCheck,
  },
  {
    name: "filter-output-pre-dnat",
    base: hook("filter", "output", DSTNAT - 10),
    rules: jumpsToVanishedCheck,
  },
  {
    name: "filter-input",
    base: hook("filter", "input", FILTER),
    rules: () => [...CHECKED, jump("nodeport-endpoints-check"), jump("service-endpoints-check")],
  },
  {
    name: "filter-forward",
    base: hook("filter", "forward", FILTER),
    rules: (context) => [
      ...(context.fastPathAfter === undefined ? [UNLESS_NEW] : [TO_FAST_PATH]),
      ...CHECKED_IF_NEW,
      jump("service-endpoints-check"),
      jump(CLUSTER_IPS_CHECK),
    ],
  },
  {
    name: "filter-output",
    base: hook("filter", "output", FILTER),
    rules: (context) => [
      ...CHECKED,
      jump("service-endpoints-check"),
      jump(CLUSTER_IPS_CHECK),
      ...refuseLoopbackNodePorts(context),
    ],
  },
  { name: "nat-prerouting", base: hook("nat", "prerouting", DSTNAT), rules: () => [jump("services")] },
  {
    name: "nat-output",
    base: hook("nat", "output", DSTNAT),
    rules: (context) => [...loopbackNodePorts(context), jump("services")],
  },
  { name: "nat-postrouting", base: hook("nat", "postrouting", SRCNAT), rules: () => [jump(MASQUERADING)] },
];

/** The chains in which packets enter, of one family. */
export function baseChains(context: FamilyContext): StaticChain[] {
  return HOOKED_CHAINS.map(({ name, base, rules }) => ({ name, base, rules: rules(context) })).filter(
    ({ rules }) => rules.length > 0,
  );
}
