import { assign, atLeast, CONNECTION_HAS_DNAT, CONNECTION_IS_NOT_NEW, meta } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import type { BaseChain, Chain } from "../nft/ast/ruleset.ts";
import { CLUSTER_IPS_CHECK, MASQUERADING, type StaticChainName } from "./chain-names.ts";
import { LEAST_REGISTER_VALUE } from "./list-ids.ts";
import { loopbackNodePorts, refuseLoopbackNodePorts } from "./loopback.ts";
import type { FamilyContext, RulesetPart } from "./node-context.ts";

/** nft's names for the priorities: dstnat, filter, srcnat. Source: linux/netfilter_ipv4.h. */
const DSTNAT = -100;
const FILTER = 0;
const SRCNAT = 100;

const ACCEPT: Statement = { accept: null };

/** Chains for new connections accept all other packets first, so that these skip the remaining rules. */
const UNLESS_NEW: Rule = [CONNECTION_IS_NOT_NEW, ACCEPT];

/**
 * Removes our ids from packets: queueing disciplines read them as a traffic class. IPv6 forwarding, local
 * output and bridges that call these hooks (br_netfilter) keep the value. Smaller values belong to other
 * software and stay.
 */
export const RESET_PRIORITY: Rule = [
  atLeast(meta("priority"), LEAST_REGISTER_VALUE),
  assign(meta("priority"), 0),
];

/** Accepts translated packets: they have an endpoint, and their address is no longer a Service's. */
const UNLESS_TRANSLATED: Rule = [CONNECTION_HAS_DNAT, ACCEPT];

/**
 * The base chains of one family, with kube-proxy's names, hooks and priorities, which other software relies
 * on. The checks for endpoints run after dnat, when a balanced packet already has its endpoint's address.
 * Source ranges are checked on the way to an endpoint: nat chains see only first packets of connections.
 * kube-proxy checks them before any dnat, in chains that every packet of the node passes.
 * @param features the features that the table has sets and chains of
 */
export function baseChains(context: FamilyContext, features: readonly RulesetPart[]): Chain[] {
  const beforeTranslation = features.flatMap((feature) => feature.beforeTranslation ?? []);
  const first = features.flatMap(({ onFiltering = [] }) => onFiltering);
  // As UNLESS_NEW, unless a feature has another use for these packets, at the same cost.
  const known = [CONNECTION_IS_NOT_NEW, features.find(({ onKnown }) => onKnown)?.onKnown ?? ACCEPT];
  const checkedIfNew = [
    RESET_PRIORITY,
    ...features.flatMap(({ afterTranslation = [] }) => afterTranslation),
    UNLESS_TRANSLATED,
  ];
  const checkEndpoints = jump("service-endpoints-check");
  const chains: StaticChain[] = [
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
      rules: [...first, UNLESS_NEW, ...checkedIfNew, jump("nodeport-endpoints-check"), checkEndpoints],
    },
    {
      name: "filter-forward",
      base: hook("filter", "forward", FILTER),
      rules: [...first, known, ...checkedIfNew, checkEndpoints, jump(CLUSTER_IPS_CHECK)],
    },
    {
      name: "filter-output",
      base: hook("filter", "output", FILTER),
      rules: [
        ...first,
        UNLESS_NEW,
        ...checkedIfNew,
        checkEndpoints,
        jump(CLUSTER_IPS_CHECK),
        ...refuseLoopbackNodePorts(context),
      ],
    },
    { name: "nat-prerouting", base: hook("nat", "prerouting", DSTNAT), rules: [jump("services")] },
    {
      name: "nat-output",
      base: hook("nat", "output", DSTNAT),
      rules: [...loopbackNodePorts(context), jump("services")],
    },
    { name: "nat-postrouting", base: hook("nat", "postrouting", SRCNAT), rules: [jump(MASQUERADING)] },
  ];
  // Even an empty chain would cost every packet of the node.
  return chains.filter(({ rules }) => rules.length > 0);
}

interface StaticChain extends Chain {
  readonly name: StaticChainName;
}

function hook(type: BaseChain["type"], name: BaseChain["hook"], prio: number): BaseChain {
  return { type, hook: name, prio, policy: "accept" };
}

function jump(target: StaticChainName): Rule {
  return [{ jump: { target } }];
}
