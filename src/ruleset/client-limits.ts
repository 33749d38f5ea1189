import { type ClientLimits, GREATEST_RATE, rateNumber, refillSeconds } from "../model/client-limits.ts";
import { concat, randomNumber, verdictMap } from "../nft/ast/expression.ts";
import type { ElementStatement, Rule, Statement } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { SERVICE_PORT_ID } from "./balancers.ts";
import { clientLimitName, type StaticChain, type StaticChainName } from "./chain-names.ts";
import { sourceAddress } from "./keys.ts";
import type { FamilyContext } from "./node-context.ts";
import { recordingRules } from "./refusal-rules.ts";
import { CLIENT_CONNECTIONS, CLIENT_LIMITS, CLIENT_RATES } from "./sets.ts";

/** The chain that refuses connections of clients beyond a limit. */
export const CLIENT_LIMIT_REFUSAL = "client-limit-refusal" satisfies StaticChainName;

/** Sends a packet with a list id or the id of an external way in the register past the limits, if any. */
export const CHECK_CLIENT_LIMITS: Rule = [verdictMap(SERVICE_PORT_ID, CLIENT_LIMITS)];

/**
 * The chain that enforces limits. Each rule ends if the client is within its limit, and if the set is full.
 * The rate comes first: a connection beyond it does not count as a concurrent connection.
 */
export function clientLimitChain(family: FamilyContext["family"], limits: ClientLimits): Chain {
  const { connections, rate = GREATEST_RATE } = limits;
  const refuse: Statement = { goto: { target: CLIENT_LIMIT_REFUSAL } };
  // The limit is a part of the key: an element keeps the limit that it was created with.
  const key = (limit: number) => concat(SERVICE_PORT_ID, randomNumber(1, limit), sourceAddress(family));
  const { amount, per, burst } = rate;
  const timed = { elem: { val: key(rateNumber(rate)), timeout: refillSeconds(rate) } };
  const beyondRate: ElementStatement = { limit: { rate: amount, per, burst, inv: true } };
  const rules: Rule[] = [
    [{ set: { op: "update", elem: timed, set: `@${CLIENT_RATES}`, stmt: [beyondRate] } }, refuse],
  ];
  if (connections !== undefined) {
    const elem = key(connections);
    const beyond: ElementStatement = { "ct count": { val: connections, inv: true } };
    rules.push([{ set: { op: "add", elem, set: `@${CLIENT_CONNECTIONS}`, stmt: [beyond] } }, refuse]);
  }
  return { name: clientLimitName(limits), rules };
}

/**
 * Records a connection, and resets or drops it. Nothing is translated yet: the reset has the Service's
 * address.
 */
export function clientLimitRefusal(context: FamilyContext): StaticChain {
  return {
    name: CLIENT_LIMIT_REFUSAL,
    rules: [...recordingRules(context), [{ reject: { type: "tcp reset" } }], [{ drop: null }]],
  };
}
