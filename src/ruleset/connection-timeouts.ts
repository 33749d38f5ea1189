import { SharedValues } from "../base/shared-values.ts";
import {
  type ConnectionTimeouts,
  TIMED_STATES,
  TIMEOUT_NAMES,
  type TimeoutName,
  timeoutsOfProtocol,
} from "../model/connection-timeouts.ts";
import type { Protocol } from "../model/ids.ts";
import type { ServicePort } from "../model/service-port.ts";
import { verdictMap } from "../nft/ast/expression.ts";
import type { Rule } from "../nft/ast/json.ts";
import type { Chain, TimeoutPolicy } from "../nft/ast/ruleset.ts";
import { SERVICE_PORT_ID } from "./balancers.ts";
import { type TimeoutsName, timeoutsName } from "./chain-names.ts";
import type { FamilyContext } from "./node-context.ts";
import { TIMEOUTS } from "./sets.ts";

/**
 * The object with the timeouts of a service port's connections, and the chain that assigns it: one pair for
 * each distinct list of timeouts of a protocol. Both have the same name.
 */
export interface PortTimeouts {
  readonly object: TimeoutPolicy & { readonly name: TimeoutsName };
  readonly chain: Chain & { readonly name: TimeoutsName };
}

/** Shares equal timeouts, to save memory. */
const known = new SharedValues<PortTimeouts>();

/** The timeouts of a service port; undefined if it has none of its own. */
export function portTimeouts(
  { service, spec: { protocol } }: Pick<ServicePort, "service" | "spec">,
  { connectionTimeouts: ofNode }: Pick<FamilyContext, "connectionTimeouts">,
): PortTimeouts | undefined {
  const own = timeoutsOfProtocol(service.connectionTimeouts, protocol);
  return own === undefined || ofNode === undefined ? undefined : timeoutsFor(protocol, own, ofNode);
}

/**
 * The object and chain for some timeouts of a protocol. The object has all states, because nft would fill in
 * defaults of its own.
 * @param ofNode the timeouts of the states that `own` does not name
 */
export function timeoutsFor(
  protocol: Protocol,
  own: ConnectionTimeouts,
  ofNode: Readonly<Record<TimeoutName, number>>,
): PortTimeouts {
  const names = TIMEOUT_NAMES.filter((name) => TIMED_STATES[name].protocol === protocol);
  const seconds = (name: TimeoutName) => own[name] ?? ofNode[name];
  const policy = Object.fromEntries(names.map((name) => [TIMED_STATES[name].state, seconds(name)]));
  const content = `${protocol} ${JSON.stringify(policy)}`;
  const name = timeoutsName(content);
  return known.share(content, {
    object: { name, protocol, policy },
    chain: { name, rules: [[{ "ct timeout": name }]] },
  });
}

/**
 * Sends a packet with the id of a list or external way in the register to the chain with its service port's
 * timeouts. All ways of a service port share one element. Only the first packet of a connection reaches this
 * rule, and the kernel assigns timeouts with no other packet.
 */
export const TO_TIMEOUTS: Rule = [verdictMap(SERVICE_PORT_ID, TIMEOUTS)];
