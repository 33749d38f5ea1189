import type { Family } from "../base/family.ts";
import { assign, concat, dnatTo, lookup, meta, randomNumber } from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { type Balancer, balancerName } from "./chain-names.ts";
import { frontendParts, sourceAddress } from "./keys.ts";
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
  return [randomIndex(balancer), toEndpoint(family, balancer)];
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
    [randomIndex(balancer), endpointId, remember, toEndpoint(family, balancer)],
    [randomIndex(balancer), endpointId, toEndpoint(family, balancer)],
  ];
}

function randomIndex(balancer: Balancer): Statement {
  return assign(REGISTER, randomNumber(balancer.count, firstIndex(balancer)));
}

function toEndpoint(family: Family, { kind }: Balancer): Statement {
  return dnatTo(family, lookup(concat(...frontendParts(kind, family), REGISTER), FRONTEND_MAPS[kind].endpoints));
}
