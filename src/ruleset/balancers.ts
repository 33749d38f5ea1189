import type { Family } from "../base/family.ts";
import {
  assign,
  concat,
  dnatTo,
  dnatToAddress,
  lookup,
  masked,
  matches,
  meta,
  randomNumber,
  verdictMap,
  withBit,
} from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { type Balancer, balancerName, chooserName, rememberName } from "./chain-names.ts";
import { type Draw, FIRST_ENDPOINT_DRAW } from "./draws.ts";
import { type FrontendKind, PORTS } from "./frontend-kinds.ts";
import { HAS_PORTS, sourceAddress } from "./keys.ts";
import { type ListName, LOCAL_BIT, MEMBERSHIP, STICKY_MASK, TO_CLUSTER_LIST } from "./list-ids.ts";
import { AFFINITY, AFFINITY_CHOOSERS, AFFINITY_IDS, AFFINITY_TIMEOUTS } from "./sets.ts";

/** The chain of a balancer. Packets enter it with the id of a list in `meta priority`. */
export function balancerChain(family: Family, balancer: Balancer, kind = PORTS): Chain {
  const rules =
    balancer.affinitySeconds === 0
      ? drawRules(family, balancer, kind)
      : affinityRules(family, balancer, kind);
  return { name: balancerName(balancer, kind), rules };
}

/** Holds an id for one packet: `meta priority` is as wide as an id. */
export const REGISTER: Expression = meta("priority");

/**
 * The id of the service port that has the list or external way in the register. With session affinity, the
 * bits of endpoints stay: they are 0 in such an id.
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
 * Draws a number of a list and translates to its endpoint. A list that is shorter than the number of the
 * chain has no endpoint at the last numbers: then the next rule draws again.
 *
 * Packets in flight when their list shrank may find nothing either: lookups see the newest elements even in
 * older rules. So the last rule goes to the chain that translates to number 0: a list has it as long as it
 * has any endpoint.
 */
function drawRules(family: Family, balancer: Balancer, kind: FrontendKind): Rule[] {
  // nft requires a match of the transport protocol in rules that translate the port.
  const numbers = balancer.method.numbers(family, balancer.count);
  const rules = numbers.map((number) => [HAS_PORTS, toEndpoint(family, kind, number)]);
  const first = balancerName({ ...balancer, ...FIRST_ENDPOINT_DRAW }, kind);
  return balancer.count === 1 ? rules : [...rules, gotoChain(first)];
}

function gotoChain(target: string): Rule {
  return [{ goto: { target } }];
}

/** @param number the endpoint's number in the list; with session affinity, {@link MEMBERSHIP} of the list */
function toEndpoint(family: Family, { kind, endpoints }: FrontendKind, number: Expression): Statement {
  const endpoint = lookup(concat(REGISTER, number), endpoints);
  return kind === "interval" ? dnatToAddress(endpoint) : dnatTo(family, endpoint);
}

/**
 * The chain that draws an endpoint of the list in the register, and puts its id there. All timeouts share it,
 * just as all numbers of endpoints share {@link affinityRules}.
 */
export function chooserChain(family: Family, draw: Draw): Chain {
  const take = (number: Expression) => assign(REGISTER, lookup(concat(REGISTER, number), AFFINITY_IDS));
  const numbers = draw.method.numbers(family, draw.count);
  const rules: Rule[] = numbers.map((number) => [take(number), { return: null }]);
  return {
    name: chooserName(draw),
    rules: draw.count === 1 ? rules : [...rules, gotoChain(chooserName(FIRST_ENDPOINT_DRAW))],
  };
}

/**
 * The chain that remembers the endpoint in the register for the packet's client. Does nothing if the map is
 * full.
 * @param isLocal whether the entry is the separate one for the list of this node
 */
export function rememberChain(family: Family, seconds: number, isLocal: boolean): Chain {
  const elem = { elem: { val: clientKey(family, isLocal ? "local" : "cluster"), timeout: seconds } };
  return {
    name: rememberName(seconds, isLocal),
    rules: [[{ map: { op: "update", elem, data: REGISTER, map: `@${AFFINITY}` } }]],
  };
}

/**
 * 1. Finds the client's endpoint, and remembers it for another timeout.
 * 2. The client keeps its endpoint if that is still in the list.
 * 3. Other clients reach this rule: it deletes their stale entry.
 * 4. Chooses an endpoint.
 * 5. Remembers it.
 * 6. Translates to it.
 * 7. Serves packets in flight when their endpoint left, as in {@link drawRules}.
 *
 * If connections use both lists of a service port, a client has an entry for each. Then these rules are
 * between 3 and 4:
 * - Finds the client's endpoint of the other list, and remembers it for this one. The other entry stays.
 * - The client gets this endpoint if it is in the list.
 * - Otherwise, deletes the entry that the first of these three rules wrote.
 */
function affinityRules(family: Family, balancer: Balancer, kind: FrontendKind): Rule[] {
  const list = balancer.local ? "local" : "cluster";
  // If all connections use one list, its entries have the cluster's number.
  const entryList = balancer.bothLists ? list : "cluster";
  const find = (client: Expression) => assign(REGISTER, lookup(client, AFFINITY));
  const remember = verdictMap(listOf(entryList), AFFINITY_TIMEOUTS);
  const forget: Rule = [
    { map: { op: "delete", elem: clientKey(family, entryList), data: 0, map: `@${AFFINITY}` } },
  ];
  const toMember = toEndpoint(family, kind, randomNumber(1, MEMBERSHIP[list]));
  const translate: Rule = [HAS_PORTS, toMember];
  const first = lookup(concat(listOf(list), randomNumber(1, 0)), AFFINITY_IDS);
  const other = clientKey(family, balancer.local ? "cluster" : "local");
  return [
    [find(clientKey(family, entryList)), remember],
    translate,
    forget,
    ...(balancer.bothLists ? [[find(other), remember], translate, forget] : []),
    [assign(REGISTER, listOf(list)), verdictMap(REGISTER, AFFINITY_CHOOSERS)],
    [remember],
    translate,
    [HAS_PORTS, assign(REGISTER, first), toMember],
  ];
}

const SERVICE_PORT = masked(REGISTER, STICKY_MASK);

/** The id of a list of the service port in the register, where the id of an endpoint may be. */
const listOf = (list: ListName): Expression =>
  list === "cluster" ? SERVICE_PORT : withBit(REGISTER, STICKY_MASK, LOCAL_BIT);

/**
 * The key of the packet's client in the affinity map. Its first part equals the id of a list: see
 * `CLIENTS_OF`. nft accepts a mask only in the first part of a key.
 */
function clientKey(family: Family, list: ListName): Expression {
  return concat(listOf(list), sourceAddress(family));
}
