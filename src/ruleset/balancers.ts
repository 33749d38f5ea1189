import { assertNever } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import {
  assign,
  concat,
  dnatTo,
  hash,
  lookup,
  meta,
  nextNumber,
  payload,
  randomNumber,
} from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { type Balancer, balancerName } from "./chain-names.ts";
import { destinationAddress, frontendParts, sourceAddress } from "./keys.ts";
import { FRONTEND_MAPS } from "./sets.ts";

/**
 * All values that we put into `meta priority`, indexes and ids, are at least this, so that others' priorities are told
 * from ours and stay: see RESET_PRIORITY in base-chains.ts.
 */
export const LEAST_REGISTER_VALUE = 0x8000_0000;
const FIRST_INDEX = LEAST_REGISTER_VALUE;
const FIRST_SHORTCUT_INDEX = 0x8001_0000;

/** The first index of a balancer's list; the others follow. */
export function firstIndex({ shortcut }: Pick<Balancer, "shortcut">): number {
  return shortcut ? FIRST_SHORTCUT_INDEX : FIRST_INDEX;
}

/** The chain of a balancer. */
export function balancerChain(family: Family, balancer: Balancer): Chain {
  const rules = balancer.affinitySeconds === 0 ? [balanceRule(family, balancer)] : affinityRules(family, balancer);
  return { name: balancerName(balancer), rules };
}

/** `meta priority` is as wide as an endpoint id: our register for one packet. */
const REGISTER: Expression = meta("priority");

function balanceRule(family: Family, balancer: Balancer): Rule {
  return [chooseIndex(family, balancer), toEndpoint(family, balancer)];
}

/**
 * 1. A client that has an endpoint keeps it, if that still is one.
 * 2. Only others come here: what is remembered of them is of no use.
 * 3. They get an endpoint, which is remembered.
 * 4. The map is full, so that the update ended the rule above: balanced without being remembered.
 */
function affinityRules(family: Family, balancer: Balancer): Rule[] {
  const { affinity, affinityIds } = FRONTEND_MAPS[balancer.kind];
  const frontend = frontendParts(balancer.kind, family);
  const client = concat(sourceAddress(family), ...frontend);
  const remember: Statement = {
    map: {
      op: "update",
      elem: { elem: { val: client, timeout: balancer.affinitySeconds } },
      data: REGISTER,
      map: `@${affinity}`,
    },
  };
  const forget: Statement = { map: { op: "delete", elem: client, data: 0, map: `@${affinity}` } };
  const endpointId = assign(REGISTER, lookup(concat(...frontend, REGISTER), affinityIds));
  return [
    [assign(REGISTER, lookup(client, affinity)), remember, toEndpoint(family, balancer)],
    [forget],
    [chooseIndex(family, balancer), endpointId, remember, toEndpoint(family, balancer)],
    [chooseIndex(family, balancer), endpointId, toEndpoint(family, balancer)],
  ];
}

/** Any number, but the same on every node and after every restart. */
const HASH_SEED = 0x6e667470;

function chooseIndex(family: Family, balancer: Balancer): Statement {
  const { scheduler, count } = balancer;
  const offset = firstIndex(balancer);
  switch (scheduler) {
    case "random":
      return assign(REGISTER, randomNumber(count, offset));
    case "round-robin":
      return assign(REGISTER, nextNumber(count, offset));
    case "source-hash":
      return assign(REGISTER, hash(sourceAddress(family), count, HASH_SEED, offset));
    case "flow-hash":
      return assign(REGISTER, hash(flow(family), count, HASH_SEED, offset));
    default:
      return assertNever(scheduler);
  }
}

/** The addresses and ports of a connection. */
function flow(family: Family): Expression {
  return concat(sourceAddress(family), destinationAddress(family), payload("th", "sport"), payload("th", "dport"));
}

function toEndpoint(family: Family, { kind }: Balancer): Statement {
  return dnatTo(family, lookup(concat(...frontendParts(kind, family), REGISTER), FRONTEND_MAPS[kind].endpoints));
}
