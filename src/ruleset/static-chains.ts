import type { Family } from "../base/family.ts";
import {
  assign,
  CONNECTION_HAS_DNAT,
  concat,
  differs,
  matches,
  meta,
  payload,
  verdictMap,
} from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import { baseChains, type StaticChain } from "./base-chains.ts";
import {
  CLUSTER_IPS_CHECK,
  DROP_CHAIN,
  EXTERNAL_LOCAL,
  MARK_FOR_MASQUERADE,
  MASQUERADING,
  REJECT_CHAIN,
  type StaticChainName,
} from "./chain-names.ts";
import { addressSet, byPodOrigin, destinationAddress, frontendKey, frontendVmap, sourceAddress } from "./keys.ts";
import type { FamilyContext } from "./node-context.ts";
import { HAS_PORTS, recordingRules } from "./refusals.ts";
import { CLUSTER_IPS, FIREWALL_IPS, type FrontendKind, HAIRPIN_CONNECTIONS, NODEPORT_IPS } from "./sets.ts";
import { resetsAmidConnection, vanishedCheck } from "./vanished.ts";

/** All chains of a family that do not depend on Services: the same however many there are. */
export function staticChains(context: FamilyContext): StaticChain[] {
  const { family } = context;
  return [
    ...baseChains(context),
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

function servicesRules(context: FamilyContext): Rule[] {
  const { family } = context;
  return [
    ...masqueradeClusterTraffic(context),
    [frontendVmap("service", family, "external")],
    [frontendVmap("service", family, "services")],
    [...toNodePorts(context), { jump: { target: "nodeports" satisfies StaticChainName } }],
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
