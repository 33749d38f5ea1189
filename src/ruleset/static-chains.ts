import { assertNever } from "../base/errors.ts";
import { assign, differs, lookup, matches, verdictMap } from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { hasBit, REGISTER, toBalancer } from "./balancers.ts";
import { baseChains, RESET_PRIORITY } from "./base-chains.ts";
import { CLUSTER_IPS_CHECK, DROP_CHAIN, MASQUERADING, REJECT_CHAIN } from "./chain-names.ts";
import { type FrontendKind, type IntervalKind, PORTS } from "./frontend-kinds.ts";
import {
  ANY_ADDRESS,
  addressSet,
  destinationAddress,
  HAS_PORTS,
  packetFrontendKey,
  packetNodePortKey,
} from "./keys.ts";
import { EXTERNAL_BIT } from "./list-ids.ts";
import {
  externalLocalRules,
  externalRules,
  masqueradeClusterTraffic,
  masqueradingRules,
} from "./masquerade.ts";
import {
  beforeRefusal,
  type FamilyContext,
  intervalsIn,
  isInTable,
  NO_PARTS,
  type RulesetPart,
} from "./node-context.ts";
import { SOURCE_RANGES_PART } from "./set-specs.ts";
import { CLUSTER_IPS, NO_ENDPOINTS, NODEPORT_IPS } from "./sets.ts";
import { sourceRangesAllowed, sourceRangesCheck, toSourceRangesCheck } from "./source-ranges.ts";

/**
 * The chains of a family that do not depend on single Services: their number is constant.
 * @param parts the optional parts that the table has: {@link SOURCE_RANGES_PART}, and features by name
 */
export function staticChains(context: FamilyContext, parts = NO_PARTS): Chain[] {
  const further = context.features.flatMap(({ name, intervals }) =>
    parts.has(name) ? (intervals?.kind ?? []) : [],
  );
  const kinds = [PORTS, ...further];
  const features = context.features.filter((feature) => isInTable(feature, context, parts));
  const areGuarded = parts.has(SOURCE_RANGES_PART);
  const besideSourceRanges = context.features.flatMap((feature) => feature.besideSourceRanges ?? []);
  return [
    ...baseChains(context, features),
    { name: "services", rules: servicesRules(context, kinds) },
    ...kinds.flatMap((kind) => wayChains(context, kind, features, areGuarded)),
    ...features.flatMap((feature) => feature.chains?.(context) ?? []),
    ...(areGuarded ? besideSourceRanges.flatMap(({ chains }) => chains(context)) : []),
    {
      name: REJECT_CHAIN,
      rules: [...beforeRefusal(context), ...features.flatMap(({ onRefusal = [] }) => onRefusal), ...refuse()],
    },
    { name: DROP_CHAIN, rules: [...beforeRefusal(context), [{ drop: null }]] },
    { name: "service-endpoints-check", rules: kinds.flatMap((kind) => refusalRules(context, kind)) },
    {
      name: "nodeport-endpoints-check",
      rules: [[...toNodePorts(context), verdictMap(packetNodePortKey(context.family), NO_ENDPOINTS)]],
    },
    { name: CLUSTER_IPS_CHECK, rules: clusterIPsRules(context) },
    { name: MASQUERADING, rules: masqueradingRules(context, kinds) },
  ];
}

/** The chains through which a packet reaches an endpoint. */
function wayChains(
  context: FamilyContext,
  kind: FrontendKind,
  features: readonly RulesetPart[],
  areGuarded: boolean,
): Chain[] {
  const { balancing, external, externalLocal } = kind.chains;
  const ofFeatures = features.flatMap(({ beforeBalancing = [] }) => beforeBalancing);
  const checks = [...(areGuarded ? [toSourceRangesCheck(context, kind)] : []), ...ofFeatures];
  return [
    {
      name: balancing,
      rules: [
        ...(kind.kind === "interval" ? [leaveExplicitPorts(context, kind)] : []),
        ...features.flatMap(({ onArrival = [] }) => onArrival),
        [hasBit(EXTERNAL_BIT), { goto: { target: external } }],
        ...ofFeatures,
        [toBalancer(kind)],
      ],
    },
    { name: external, rules: externalRules(context, kind, checks) },
    ...(areGuarded ? [sourceRangesCheck(context, kind)] : []),
    ...(areGuarded || kind.kind === "interval" ? [sourceRangesAllowed(context, kind)] : []),
    { name: externalLocal, rules: externalLocalRules(context, kind) },
  ];
}

/** Looks up a packet's frontend and continues with the id of its list or external way in the register. */
function lookupRules(context: FamilyContext, kind: FrontendKind): Rule[] {
  const { family } = context;
  const list = assign(REGISTER, lookup(packetFrontendKey(family), kind.lists));
  const toBalancing: Statement = { goto: { target: kind.chains.balancing } };
  switch (kind.kind) {
    case "port": {
      const listOfNodePort = assign(REGISTER, lookup(packetNodePortKey(family), kind.lists));
      return [
        [list, toBalancing],
        [...toNodePorts(context), listOfNodePort, toBalancing],
      ];
    }
    case "interval":
      return [[...atIntervalAddresses(context), list, toBalancing]];
    default:
      return assertNever(kind);
  }
}

/** Refuses connections to frontends without endpoints. */
function refusalRules(context: FamilyContext, kind: FrontendKind): Rule[] {
  const frontend = packetFrontendKey(context.family);
  switch (kind.kind) {
    case "port":
      return [[verdictMap(frontend, kind.refusals)]];
    case "interval": {
      // Refusals are keyed by list: the kernel takes seconds to delete thousands of intervals (6.18).
      const list = assign(REGISTER, lookup(frontend, kind.lists));
      const isNoPort = differs(frontend, `@${kind.explicitPorts}`);
      return [
        [...atIntervalAddresses(context), list, isNoPort, verdictMap(REGISTER, kind.refusals)],
        RESET_PRIORITY,
      ];
    }
    default:
      return assertNever(kind);
  }
}

/** The types of addresses at which the node's programs listen. Other machines' are unicast. */
const KINDS_OF_NODE: Expression = { set: ["anycast", "broadcast", "local", "multicast"] };

/** Excludes the node's own addresses unless all serve intervals: its programs keep their ports. */
function atIntervalAddresses(context: FamilyContext): Statement[] {
  if (!intervalsIn(context)?.areVirtual(context)) return [];
  return [differs({ fib: { flags: ["daddr"], result: "type" } }, KINDS_OF_NODE)];
}

/**
 * Explicit ports without endpoints do not fall back to the interval around them. Cutting them out of it
 * would cost its owner elements.
 */
function leaveExplicitPorts({ family }: FamilyContext, { explicitPorts }: IntervalKind): Rule {
  return [matches(packetFrontendKey(family), `@${explicitPorts}`), { return: null }];
}

function servicesRules(context: FamilyContext, kinds: readonly FrontendKind[]): Rule[] {
  const { family } = context;
  return [
    // Excludes packets to the address in keys of NodePorts: they would be served despite `nodePortAddresses`.
    [matches(destinationAddress(family), ANY_ADDRESS[family]), { return: null }],
    ...masqueradeClusterTraffic(context),
    ...kinds.flatMap((kind) => lookupRules(context, kind)),
    // Last, so that connections to Services do not pay for it.
    ...context.features.flatMap(({ withoutFrontend }) => withoutFrontend?.(context) ?? []),
  ];
}

function toNodePorts({ family, nodePorts }: FamilyContext): Statement[] {
  if (nodePorts.kind === "addresses") return [matches(destinationAddress(family), `@${NODEPORT_IPS}`)];
  return [
    matches({ fib: { flags: ["daddr"], result: "type" } }, "local"),
    differs(destinationAddress(family), addressSet(family, [family === "ip" ? "127.0.0.0/8" : "::1/128"])),
  ];
}

/**
 * Refuses packets: TCP by a reset, as a client over IPv6 tries for a second after an ICMP error (6.18), and
 * others by an ICMP error.
 */
function refuse(...matching: readonly Statement[]): Rule[] {
  return [
    [...matching, { reject: { type: "tcp reset" } }],
    [...matching, { reject: null }],
  ];
}

/** Packets that reach this chain have no frontend: no Service has the port, or the address. */
function clusterIPsRules(context: FamilyContext): Rule[] {
  const { family, serviceCIDRs } = context;
  const toClusterIP = matches(destinationAddress(family), `@${CLUSTER_IPS}`);
  const reject: Rule[] = [...beforeRefusal(context, toClusterIP, HAS_PORTS), ...refuse(toClusterIP)];
  if (serviceCIDRs.length === 0) return reject;
  const toServiceCIDR = matches(destinationAddress(family), addressSet(family, serviceCIDRs));
  return [...reject, ...beforeRefusal(context, toServiceCIDR, HAS_PORTS), [toServiceCIDR, { drop: null }]];
}
