import {
  assign,
  CONNECTION_HAS_DNAT,
  concat,
  differs,
  lookup,
  matches,
  meta,
  verdictMap,
} from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import { hasBit, REGISTER, toBalancer, toList } from "./balancers.ts";
import { baseChains, RESET_PRIORITY, type StaticChain } from "./base-chains.ts";
import {
  BALANCING,
  CLUSTER_IPS_CHECK,
  DROP_CHAIN,
  EXTERNAL,
  EXTERNAL_LOCAL,
  MASQUERADING,
  RANGE_BALANCING,
  RANGE_EXTERNAL,
  RANGE_EXTERNAL_LOCAL,
  REJECT_CHAIN,
  type StaticChainName,
} from "./chain-names.ts";
import { fastPathChains } from "./fast-path.ts";
import {
  ANY_ADDRESS,
  addressSet,
  byPodOrigin,
  destinationAddress,
  packetFrontend,
  packetFrontendKey,
  packetNodePortKey,
  sourceAddress,
} from "./keys.ts";
import { EXTERNAL_BIT, LOCAL_BIT, TO_CLUSTER_LIST, TO_OWN_LIST } from "./list-ids.ts";
import type { FamilyContext } from "./node-context.ts";
import { HAS_PORTS, recordingRules } from "./refusal-rules.ts";
import {
  CLUSTER_IPS,
  type FrontendMaps,
  HAIRPIN_CONNECTIONS,
  LISTS,
  NO_ENDPOINTS,
  NODEPORT_IPS,
  PORT_MAPS,
  RANGE_EMPTY_LISTS,
  RANGE_EXPLICIT_PORTS,
  RANGE_HAIRPINS,
  RANGE_MAPS,
} from "./sets.ts";
import { resetsAmidConnection, vanishedCheck } from "./vanished.ts";

/**
 * All chains of a family that do not depend on single Services: the same however many there are.
 * @param hasRanges some Service has ranges of ports: packets that have found no port are looked up there
 */
export function staticChains(context: FamilyContext, hasRanges = false): StaticChain[] {
  const { family } = context;
  const frontend = packetFrontendKey(family);
  return [
    ...baseChains(context),
    { name: "services", rules: [...servicesRules(context), ...(hasRanges ? [toRanges(context)] : [])] },
    ...wayChains(context, PORT_WAYS),
    ...(hasRanges ? wayChains(context, RANGE_WAYS) : []),
    {
      name: REJECT_CHAIN,
      rules: [...recordingRules(context), ...resetsAmidConnection(context), [{ reject: null }]],
    },
    { name: DROP_CHAIN, rules: [...recordingRules(context), [{ drop: null }]] },
    {
      name: "service-endpoints-check",
      rules: [[verdictMap(frontend, NO_ENDPOINTS)], ...(hasRanges ? rangesWithoutEndpoints(context) : [])],
    },
    {
      name: "nodeport-endpoints-check",
      rules: [[...toNodePorts(context), verdictMap(packetNodePortKey(family), NO_ENDPOINTS)]],
    },
    ...vanishedCheck(context),
    ...fastPathChains(context),
    { name: CLUSTER_IPS_CHECK, rules: clusterIPsRules(context) },
    { name: MASQUERADING, rules: masqueradingRules(context, hasRanges) },
  ];
}

/** The chains in which a packet is on its way to an endpoint, and the maps that they look into. */
interface Ways {
  readonly maps: FrontendMaps;
  readonly balancing: StaticChainName;
  readonly external: StaticChainName;
  readonly externalLocal: StaticChainName;
}

const PORT_WAYS: Ways = {
  maps: PORT_MAPS,
  balancing: BALANCING,
  external: EXTERNAL,
  externalLocal: EXTERNAL_LOCAL,
};

const RANGE_WAYS: Ways = {
  maps: RANGE_MAPS,
  balancing: RANGE_BALANCING,
  external: RANGE_EXTERNAL,
  externalLocal: RANGE_EXTERNAL_LOCAL,
};

/** The chains that are there only while a Service has ranges of ports. */
export const RANGE_CHAINS = [RANGE_BALANCING, RANGE_EXTERNAL, RANGE_EXTERNAL_LOCAL] as const;

function wayChains(context: FamilyContext, ways: Ways): StaticChain[] {
  const { maps, balancing, external, externalLocal } = ways;
  return [
    {
      name: balancing,
      rules: [
        ...(maps === RANGE_MAPS ? [leaveExplicitPorts(context)] : []),
        [hasBit(EXTERNAL_BIT), { goto: { target: external } }],
        [toBalancer(maps)],
      ],
    },
    { name: external, rules: externalRules(context, ways) },
    { name: externalLocal, rules: externalLocalRules(context, maps) },
  ];
}

const TO_BALANCING: Statement = { goto: { target: BALANCING } };

/** The last of the lookups: explicit ports and NodePorts come before. */
function toRanges(context: FamilyContext): Rule {
  const { maps, balancing } = RANGE_WAYS;
  const list = lookup(packetFrontendKey(context.family), maps.lists);
  return [...atRangeAddresses(context), assign(REGISTER, list), { goto: { target: balancing } }];
}

/** The kinds of addresses at which programs of the node itself are reached: other machines' are unicast to the kernel. */
const KINDS_OF_NODE: Expression = { set: ["anycast", "broadcast", "local", "multicast"] };

/** The node's own programs keep all of their ports, unless ranges are served at all addresses. */
function atRangeAddresses({ portRanges }: FamilyContext): Statement[] {
  if (portRanges === "all") return [];
  return [differs({ fib: { flags: ["daddr"], result: "type" } }, KINDS_OF_NODE)];
}

/** A port without endpoints is not the range's around it. Cutting it out of the range would cost the range's owner elements. */
function leaveExplicitPorts({ family }: FamilyContext): Rule {
  return [matches(packetFrontendKey(family), `@${RANGE_EXPLICIT_PORTS}`), { return: null }];
}

/** The list decides, and not the range: the kernel takes seconds to delete thousands of intervals (6.18). */
function rangesWithoutEndpoints(context: FamilyContext): Rule[] {
  const frontend = packetFrontendKey(context.family);
  const list = assign(REGISTER, lookup(frontend, RANGE_MAPS.lists));
  const isInRange = differs(frontend, `@${RANGE_EXPLICIT_PORTS}`);
  return [
    [...atRangeAddresses(context), list, isInRange, verdictMap(REGISTER, RANGE_EMPTY_LISTS)],
    RESET_PRIORITY,
  ];
}

/** The packet goes on with the id of a list, or of an external way, in the register. */
function servicesRules(context: FamilyContext): Rule[] {
  const { family } = context;
  return [
    // The key of a NodePort, which a packet must not have by itself: it would pass by the node's addresses for NodePorts.
    [matches(destinationAddress(family), ANY_ADDRESS[family]), { return: null }],
    ...masqueradeClusterTraffic(context),
    [assign(REGISTER, lookup(packetFrontendKey(family), LISTS)), TO_BALANCING],
    [...toNodePorts(context), assign(REGISTER, lookup(packetNodePortKey(family), LISTS)), TO_BALANCING],
  ];
}

/** ClusterIP traffic that is not from pods would be answered past us, unless it comes from this node's address. */
function masqueradeClusterTraffic(context: FamilyContext): Rule[] {
  const { family, masqueradeAll } = context;
  const toClusterIP = matches(destinationAddress(family), `@${CLUSTER_IPS}`);
  if (masqueradeAll) return [[toClusterIP, setMark(context)]];
  const notFromPods = byPodOrigin(context, differs);
  // Pods' own packets are spared the lookup.
  return notFromPods === undefined ? [] : [[notFromPods, toClusterIP, setMark(context)]];
}

/** Source ranges may end a connection here. By a policy of Cluster, answers must come back through this node. */
function externalRules(context: FamilyContext, { maps, externalLocal }: Ways): Rule[] {
  return [
    [verdictMap(packetFrontendKey(context.family), maps.firewallIPs)],
    [hasBit(LOCAL_BIT), { goto: { target: externalLocal } }],
    [setMark(context), toList(TO_CLUSTER_LIST), toBalancer(maps)],
  ];
}

/**
 * Traffic from outside keeps its address and reaches local endpoints only; traffic of pods and of the node itself goes by
 * the cluster-wide list, as if it had gone out and come back.
 */
function externalLocalRules(context: FamilyContext, maps: FrontendMaps): Rule[] {
  const fromPods = byPodOrigin(context, matches);
  const fromNode = matches({ fib: { flags: ["saddr"], result: "type" } }, "local");
  return [
    ...(fromPods === undefined ? [] : [[fromPods, toList(TO_CLUSTER_LIST), toBalancer(maps)]]),
    [fromNode, setMark(context), toList(TO_CLUSTER_LIST), toBalancer(maps)],
    [toList(TO_OWN_LIST), toBalancer(maps)],
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
  const reject: Rule[] = [
    ...recordingRules(context, toClusterIP, HAS_PORTS),
    [toClusterIP, { reject: null }],
  ];
  if (serviceCIDRs.length === 0) return reject;
  const toServiceCIDR = matches(destinationAddress(family), addressSet(family, serviceCIDRs));
  return [...reject, ...recordingRules(context, toServiceCIDR, HAS_PORTS), [toServiceCIDR, { drop: null }]];
}

function masqueradingRules({ family, masqueradeMark }: FamilyContext, hasRanges: boolean): Rule[] {
  const mark = meta("mark");
  const masquerade: Statement = { masquerade: { flags: "fully-random" } };
  const hairpinKey = concat(sourceAddress(family), ...packetFrontend(family));
  const ends = concat(sourceAddress(family), destinationAddress(family));
  return [
    [differs({ "&": [mark, masqueradeMark] }, 0), assign(mark, { "^": [mark, masqueradeMark] }), masquerade],
    [CONNECTION_HAS_DNAT, matches(hairpinKey, `@${HAIRPIN_CONNECTIONS}`), masquerade],
    ...(hasRanges ? [[CONNECTION_HAS_DNAT, matches(ends, `@${RANGE_HAIRPINS}`), masquerade]] : []),
  ];
}

function setMark({ masqueradeMark }: FamilyContext): Statement {
  const mark: Expression = meta("mark");
  return assign(mark, { "|": [mark, masqueradeMark] });
}
