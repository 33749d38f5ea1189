import { SharedValues } from "../../base/shared-values.ts";
import { concat, randomNumber, verdictMap } from "../../nft/ast/expression.ts";
import type { ElementStatement, Rule, Statement } from "../../nft/ast/json.ts";
import type { Chain, DataType, SetSpec } from "../../nft/ast/ruleset.ts";
import { SERVICE_PORT_ID } from "../../ruleset/balancers.ts";
import { sourceAddress } from "../../ruleset/keys.ts";
import {
  beforeRefusal,
  type FamilyContext,
  type PortPart,
  type RulesetPart,
} from "../../ruleset/node-context.ts";
import { addressType, PLAIN } from "../../ruleset/set-specs.ts";
import {
  type ClientLimits,
  clientLimitsOf,
  FEATURE,
  GREATEST_RATE,
  rateNumber,
  refillSeconds,
} from "./limits.ts";

/** Service port id to the chain that limits its clients. */
export const CLIENT_LIMITS = "client-limits";
/** Service port id, limit and client of each connection that counts; filled by packets. */
export const CLIENT_CONNECTIONS = "client-connections";
/** Service port id, rate and client with new connections; filled by packets. */
export const CLIENT_RATES = "client-rates";
/** The chain that refuses connections of clients beyond a limit. */
const CLIENT_LIMIT_REFUSAL = "client-limit-refusal";

/** The default of the maximum number of clients whose connections are counted. */
export const DEFAULT_MOST_CLIENTS = 65_536;

/** Sends a packet with a list id or the id of an external way in the register past the limits, if any. */
const CHECK: Rule = [verdictMap(SERVICE_PORT_ID, CLIENT_LIMITS)];

export const rules = {
  name: FEATURE,
  specs,
  chains: (context) => [refusalChain(context)],
  beforeBalancing: [CHECK],
  isChainOfPort: (name) => CHAIN_NAME.test(name),
  partOf: ({ service, family }) => {
    const limits = clientLimitsOf(service);
    return limits && partFor(limits, family);
  },
  refusal: { chain: CLIENT_LIMIT_REFUSAL, message: "the client is beyond a limit" },
  clientSets: {
    [CLIENT_CONNECTIONS]: "Clients with limited connections",
    [CLIENT_RATES]: "Clients with limited new connections",
  },
  budget: {
    text: "limits of its clients",
    topic: "client limits",
    event: "ClientsNotLimited",
    path: "metadata.annotations",
    amountOf: ({ service }) => (clientLimitsOf(service) === undefined ? 0 : 1),
    what: "different client limits in a family",
    sharedOf: ({ service }) => {
      const limits = clientLimitsOf(service);
      return limits && chainName(limits);
    },
    none: "this node's kernel cannot count connections",
  },
  needs: {
    name: "limits of connections in sets",
    hint: "load or build the kernel modules nft_connlimit and nft_limit (CONFIG_NFT_CONNLIMIT, CONFIG_NFT_LIMIT)",
    consequence: "the feature client-limits has no effect: clients of Services have no limits",
    sample: () => [partFor({ connections: 1 }, "ip")],
  },
} satisfies RulesetPart;

/**
 * The first dynamic set allows no timeouts: the kernel deletes its elements when their connections have
 * ended. A probe has no settings.
 */
function specs({ family, settings }: FamilyContext): SetSpec[] {
  const key: DataType[] = ["classid", "integer", addressType(family)];
  const { maxLimitedClients: size = DEFAULT_MOST_CLIENTS } = settings as {
    readonly maxLimitedClients?: number;
  };
  return [
    { ...PLAIN, name: CLIENT_LIMITS, key: ["classid"], value: "verdict" },
    { ...PLAIN, name: CLIENT_CONNECTIONS, key, dynamic: true, untimed: true, size },
    { ...PLAIN, name: CLIENT_RATES, key, dynamic: true, size },
  ];
}

/** Shares equal parts, to save memory. */
const parts = new SharedValues<PortPart>();

function partFor(limits: ClientLimits, family: FamilyContext["family"]): PortPart {
  const name = chainName(limits);
  return parts.share(`${family} ${name}`, {
    part: rules,
    map: CLIENT_LIMITS,
    chain: { name, rules: limitRules(family, limits) },
  });
}

const NUMBER = "[1-9]\\d{0,5}";
const CHAIN_NAME = new RegExp(
  `^client-limit(?=-\\d)(?:-${NUMBER})?(?:-${NUMBER}-(?:second|minute|hour)-${NUMBER})?$`,
);

/** `client-limit-100`, `client-limit-20-second-40` or `client-limit-100-20-second-40`. */
export function chainName({ connections, rate }: ClientLimits): string {
  const numbers = [
    ...(connections === undefined ? [] : [connections]),
    ...(rate === undefined ? [] : [rate.amount, rate.per, rate.burst]),
  ];
  return ["client-limit", ...numbers].join("-");
}

/**
 * Enforces limits. Each rule ends if the client is within its limit, and if the set is full. The rate comes
 * first: a connection beyond it does not count as a concurrent connection.
 */
function limitRules(family: FamilyContext["family"], limits: ClientLimits): Rule[] {
  const { connections, rate = GREATEST_RATE } = limits;
  const refuse: Statement = { goto: { target: CLIENT_LIMIT_REFUSAL } };
  // The limit is a part of the key: an element keeps the limit that it was created with.
  const key = (limit: number) => concat(SERVICE_PORT_ID, randomNumber(1, limit), sourceAddress(family));
  const { amount, per, burst } = rate;
  const timed = { elem: { val: key(rateNumber(rate)), timeout: refillSeconds(rate) } };
  const beyondRate: ElementStatement = { limit: { rate: amount, per, burst, inv: true } };
  const ofRate: Rule = [
    { set: { op: "update", elem: timed, set: `@${CLIENT_RATES}`, stmt: [beyondRate] } },
    refuse,
  ];
  if (connections === undefined) return [ofRate];
  const elem = key(connections);
  const beyond: ElementStatement = { "ct count": { val: connections, inv: true } };
  return [ofRate, [{ set: { op: "add", elem, set: `@${CLIENT_CONNECTIONS}`, stmt: [beyond] } }, refuse]];
}

/**
 * Records a connection, and resets or drops it. Nothing is translated yet: the reset has the Service's
 * address.
 */
function refusalChain(context: FamilyContext): Chain {
  return {
    name: CLIENT_LIMIT_REFUSAL,
    rules: [...beforeRefusal(context), [{ reject: { type: "tcp reset" } }], [{ drop: null }]],
  };
}
