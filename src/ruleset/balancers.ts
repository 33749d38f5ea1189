import { assertNever } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import {
  assign,
  concat,
  dnatTo,
  dnatToAddress,
  hash,
  lookup,
  masked,
  matches,
  meta,
  networkBits,
  nextNumber,
  randomNumber,
  verdictMap,
  withBit,
} from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { type Balancer, balancerName } from "./chain-names.ts";
import { sourceAddress } from "./keys.ts";
import {
  CLIENTS_OF,
  FIRST_STICKY_NUMBER,
  type ListName,
  MEMBERSHIP,
  STICKY_MASK,
  TO_CLUSTER_LIST,
} from "./list-ids.ts";
import { HAS_PORTS } from "./refusal-rules.ts";
import { AFFINITY, AFFINITY_IDS, ENDPOINTS, type FrontendKind, RANGES } from "./sets.ts";

/** The chain of a balancer. Packets enter it with the id of a list in `meta priority`. */
export function balancerChain(family: Family, balancer: Balancer): Chain {
  const rules =
    balancer.affinitySeconds === 0 ? balanceRules(family, balancer) : affinityRules(family, balancer);
  return { name: balancerName(balancer), rules };
}

/** Holds an id for one packet: `meta priority` is as wide as an id. */
export const REGISTER: Expression = meta("priority");

/**
 * The id of the service port that has the list or external way in the register. With session affinity, the
 * bits that are masked here are 0 anyway.
 */
export const SERVICE_PORT_ID: Expression = masked(REGISTER, TO_CLUSTER_LIST);

/** Sends a packet to the chain that balances over the list in the register. */
export function toBalancer({ balancers }: FrontendKind): Statement {
  return verdictMap(REGISTER, balancers);
}

/**
 * Turns the id of an external way in the register into that of a list.
 * @param mask the bits of the id to keep
 */
export function toList(mask: number): Statement {
  return assign(REGISTER, masked(REGISTER, mask));
}

/** Matches ids in the register that have a bit. */
export function hasBit(bit: number): Statement {
  return matches(masked(REGISTER, bit), bit);
}

/**
 * The second rule is for packets in flight when their list shrank. Lookups see the newest elements even in
 * older rules, so they find nothing at the last numbers. The first number exists as long as the list.
 */
function balanceRules(family: Family, balancer: Balancer): Rule[] {
  const numbers = [chooseNumber(family, balancer, 0), ...(balancer.count > 1 ? [randomNumber(1, 0)] : [])];
  // nft requires a match of the transport protocol in rules that translate the port.
  return numbers.map((number) => [HAS_PORTS, toEndpoint(family, balancer, number)]);
}

/** @param number the endpoint's number in the list; with session affinity, the list that it is in */
function toEndpoint(family: Family, { keepsPort }: Balancer, number: Expression): Statement {
  const key = concat(REGISTER, number);
  return keepsPort ? dnatToAddress(lookup(key, RANGES.endpoints)) : dnatTo(family, lookup(key, ENDPOINTS));
}

/**
 * 1. A client keeps its endpoint if that is still in the list.
 * 2. Other clients reach this rule: it deletes their stale entry.
 * 3. Chooses an endpoint and remembers it.
 * 4. Balances without remembering: the map is full, so the update ended rule 3.
 * 5. Serves packets in flight when their endpoint left, as in {@link balanceRules}.
 *
 * If connections use both lists of a service port, a client has an entry for each. Then these rules are
 * between 2 and 3:
 * - Chooses the client's endpoint of the other list, if this list has it. The other entry stays.
 * - Does the same if the map is full.
 * - Deletes the entry of the first of these rules: this list does not have that endpoint.
 */
function affinityRules(family: Family, balancer: Balancer): Rule[] {
  const list = balancer.local ? "local" : "cluster";
  const own = clientKey(family, balancer.both ? list : "cluster");
  const remember: Statement = {
    map: {
      op: "update",
      elem: { elem: { val: own, timeout: balancer.affinitySeconds } },
      data: REGISTER,
      map: `@${AFFINITY}`,
    },
  };
  const forget: Rule = [{ map: { op: "delete", elem: own, data: 0, map: `@${AFFINITY}` } }];
  const translate = toEndpoint(family, balancer, randomNumber(1, MEMBERSHIP[list]));
  const keep = (client: Expression): Rule => [
    HAS_PORTS,
    assign(REGISTER, lookup(client, AFFINITY)),
    remember,
    translate,
  ];
  const draw = (number: Expression) => assign(REGISTER, lookup(concat(SERVICE_PORT, number), AFFINITY_IDS));
  const number = chooseNumber(family, balancer, FIRST_STICKY_NUMBER[list]);
  const first = randomNumber(1, FIRST_STICKY_NUMBER[list]);
  const other = clientKey(family, balancer.local ? "cluster" : "local");
  return [
    keep(own),
    forget,
    ...(balancer.both ? [keep(other), [HAS_PORTS, translate], forget] : []),
    [HAS_PORTS, draw(number), remember, translate],
    [HAS_PORTS, translate],
    [HAS_PORTS, draw(first), translate],
  ];
}

const SERVICE_PORT = masked(REGISTER, STICKY_MASK);

/** The key of the packet's client in the affinity map. nft accepts a mask only in the first part of a key. */
function clientKey(family: Family, list: ListName): Expression {
  const bit = CLIENTS_OF[list];
  return concat(bit === 0 ? SERVICE_PORT : withBit(REGISTER, STICKY_MASK, bit), sourceAddress(family));
}

/** An arbitrary number that is the same on every node and after every restart. */
const HASH_SEED = 0x6e667470;

function chooseNumber(family: Family, { scheduler, count }: Balancer, offset: number): Expression {
  switch (scheduler) {
    case "random":
      return randomNumber(count, offset);
    case "round-robin":
      return nextNumber(count, offset);
    case "source-hash":
      return hash(sourceAddress(family), count, HASH_SEED, offset);
    case "flow-hash":
      return hash(flow(family), count, HASH_SEED, offset);
    default:
      return assertNever(scheduler);
  }
}

/**
 * The addresses and ports of a connection, as bits from the source address on: nft's JSON does not nest
 * concatenations. In packets with IP options or extension headers, these take the place of the ports.
 */
function flow(family: Family): Expression {
  return family === "ip" ? networkBits(96, 96) : networkBits(64, 288);
}
