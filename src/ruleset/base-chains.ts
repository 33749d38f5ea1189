import type { Family } from "../base/family.ts";
import {
  assign,
  atLeast,
  CONNECTION_HAS_DNAT,
  CONNECTION_IS_NEW,
  concat,
  differs,
  matches,
  meta,
  payload,
  verdictMap,
} from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import type { BaseChain, Chain } from "../nft/ast/ruleset.ts";
import { LEAST_REGISTER_VALUE } from "./balancers.ts";
import type { StaticChainName } from "./chain-names.ts";
import { addressSet, byPodOrigin, destinationAddress, frontendKey, sourceAddress } from "./keys.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "./loopback.ts";
import type { FamilyContext } from "./node-context.ts";
import { HAS_PORTS, recordingRules } from "./refusals.ts";
import {
  CLUSTER_IPS,
  FIREWALL_IPS,
  FRONTEND_MAPS,
  type FrontendKind,
  HAIRPIN_CONNECTIONS,
  NODEPORT_IPS,
} from "./sets.ts";
import { jumpsToVanishedCheck, resetsAmidConnection, vanishedCheck } from "./vanished.ts";

/** Chains that verdicts of map elements lead to, and the one that masquerades what they marked. */
export const REJECT_CHAIN = "reject-chain" satisfies StaticChainName;
export const DROP_CHAIN = "drop-chain" satisfies StaticChainName;
export const MARK_FOR_MASQUERADE = "mark-for-masquerade" satisfies StaticChainName;
export const MASQUERADING = "masquerading" satisfies StaticChainName;
export const EXTERNAL_LOCAL = {
  service: "external-local",
  nodeport: "nodeport-external-local",
} as const satisfies Record<FrontendKind, StaticChainName>;

/** The chain that refuses what is left for cluster IPs. */
export const CLUSTER_IPS_CHECK = "cluster-ips-check" satisfies StaticChainName;

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

/** A chain that does not depend on Services. */
interface StaticChain extends Chain {
  readonly name: StaticChainName;
}

/** All chains of a family that do not depend on Services: the same however many there are. */
export function staticChains(context: FamilyContext): StaticChain[] {
  const { family } = context;
  return [
    ...HOOKED_CHAINS.map(({ name, base, rules }) => ({ name, base, rules: rules(context) })),
    { name: "services", rules: servicesRules(context) },
    { name: MARK_FOR_MASQUERADE, rules: [[setMark(context)]] },
    { name: EXTERNAL_LOCAL.service, rules: externalLocalRules(context, "service") },
    { name: EXTERNAL_LOCAL.nodeport, rules: externalLocalRules(context, "nodeport") },
    { name: "nodeports", rules: nodePortsRules(family) },
    {
      name: REJECT_CHAIN,
      rules: [...recordingRules(context), ...resetsAmidConnection(context), [{ reject: null }]],
    },
    { name: DROP_CHAIN, rules: [...recordingRules(context), [{ drop: null }]] },
    { name: "service-endpoints-check", rules: [[frontendVmap("service", family, "noEndpoints")]] },
    {
      name: "nodeport-endpoints-check",
      rules: [[...toNodePorts(context), frontendVmap("nodeport", family, "noEndpoints")]],
    },
    { name: "firewall-check", rules: [[verdictMap(frontendKey("service", family), FIREWALL_IPS)]] },
    ...vanishedCheck(context),
    { name: CLUSTER_IPS_CHECK, rules: clusterIPsRules(context) },
    { name: MASQUERADING, rules: masqueradingRules(context) },
  ];
}

function frontendVmap(kind: FrontendKind, family: Family, map: "services" | "external" | "shortcut" | "noEndpoints") {
  return verdictMap(frontendKey(kind, family), FRONTEND_MAPS[kind][map]);
}

/**
 * The userspace proxy of loopback NodePorts is led to the endpoints for connections from outside, with
 * `externalTrafficPolicy: Local` to those on this node, as kube-proxy's leads its own (KEP-6032).
 */
function loopbackNodePorts(context: FamilyContext): Rule[] {
  if (!context.loopbackNodePorts) return [];
  return [[toLoopbackNodePorts(context), frontendVmap("nodeport", context.family, "services")]];
}

/** No endpoint: refused here, for the address is nobody's. */
function refuseLoopbackNodePorts(context: FamilyContext): Rule[] {
  return context.loopbackNodePorts ? [[toLoopbackNodePorts(context), { reject: null }]] : [];
}

function toLoopbackNodePorts({ family }: FamilyContext): Statement {
  return matches(destinationAddress(family), LOOPBACK_NODEPORT_ADDRESSES[family]);
}

function servicesRules(context: FamilyContext): Rule[] {
  const { family } = context;
  return [
    ...masqueradeClusterTraffic(context),
    [frontendVmap("service", family, "external")],
    [frontendVmap("service", family, "services")],
    [...toNodePorts(context), jump("nodeports")],
  ];
}

function nodePortsRules(family: Family): Rule[] {
  return [[frontendVmap("nodeport", family, "external")], [frontendVmap("nodeport", family, "services")]];
}

/** ClusterIP traffic that is not from pods would be answered past us, unless it comes from this node's address. */
function masqueradeClusterTraffic(context: FamilyContext): Rule[] {
  const { family, masqueradeAll } = context;
  const toClusterIP = matches(destinationAddress(family), `@${CLUSTER_IPS}`);
  if (masqueradeAll) return [[toClusterIP, setMark(context)]];
  const notFromPods = byPodOrigin(context, differs);
  return notFromPods === undefined ? [] : [[toClusterIP, notFromPods, setMark(context)]];
}

/**
 * Traffic from outside keeps its address and reaches local endpoints only (the next step); traffic of pods and
 * of the node itself goes by the cluster-wide list, as if it had gone out and come back.
 */
function externalLocalRules(context: FamilyContext, kind: FrontendKind): Rule[] {
  const shortcut = frontendVmap(kind, context.family, "shortcut");
  const fromPods = byPodOrigin(context, matches);
  const fromNode = matches({ fib: { flags: ["saddr"], result: "type" } }, "local");
  return [
    ...(fromPods === undefined ? [] : [[fromPods, shortcut]]),
    [fromNode, setMark(context)],
    [fromNode, shortcut],
  ];
}

function toNodePorts({ family, nodePorts }: FamilyContext): Statement[] {
  if (nodePorts.kind === "addresses") return [matches(destinationAddress(family), `@${NODEPORT_IPS}`)];
  return [
    matches({ fib: { flags: ["daddr"], result: "type" } }, "local"),
    differs(destinationAddress(family), addressSet(family, [family === "ip" ? "127.0.0.0/8" : "::1/128"])),
  ];
}

/** Packets for a cluster IP that reach this chain have no frontend: no Service has the port, or the address. */
function clusterIPsRules(context: FamilyContext): Rule[] {
  const { family, serviceCIDRs } = context;
  const toClusterIP = matches(destinationAddress(family), `@${CLUSTER_IPS}`);
  const reject: Rule[] = [...recordingRules(context, toClusterIP, HAS_PORTS), [toClusterIP, { reject: null }]];
  if (serviceCIDRs.length === 0) return reject;
  const toServiceCIDR = matches(destinationAddress(family), addressSet(family, serviceCIDRs));
  return [...reject, ...recordingRules(context, toServiceCIDR, HAS_PORTS), [toServiceCIDR, { drop: null }]];
}

function masqueradingRules({ family, masqueradeMark }: FamilyContext): Rule[] {
  const mark = meta("mark");
  const masquerade: Statement = { masquerade: { flags: "fully-random" } };
  const hairpinKey = concat(sourceAddress(family), destinationAddress(family), meta("l4proto"), payload("th", "dport"));
  return [
    [differs({ "&": [mark, masqueradeMark] }, 0), assign(mark, { "^": [mark, masqueradeMark] }), masquerade],
    [CONNECTION_HAS_DNAT, matches(hairpinKey, `@${HAIRPIN_CONNECTIONS}`), masquerade],
  ];
}

function setMark({ masqueradeMark }: FamilyContext): Statement {
  const mark: Expression = meta("mark");
  return assign(mark, { "|": [mark, masqueradeMark] });
}
