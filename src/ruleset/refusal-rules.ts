import { concat, matches, meta } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import { packetFrontend, sourceAddress } from "./keys.ts";
import type { FamilyContext } from "./node-context.ts";
import { REFUSED } from "./sets.ts";

/** Seconds for which a refusal is remembered after the client's last packet. */
export const REFUSAL_TIMEOUT = 3600;

/**
 * Rules that record a refused or dropped packet by client and frontend, none when that is off. They end nothing: a rule
 * of their own stands before the one that refuses, so that a full set, which ends its rule, cannot undo the refusal.
 * @param conditions the conditions under which the packet is refused
 */
export function recordingRules(
  { family, refusalLogSize }: Pick<FamilyContext, "family" | "refusalLogSize">,
  ...conditions: readonly Statement[]
): Rule[] {
  if (refusalLogSize === 0) return [];
  const val = concat(sourceAddress(family), ...packetFrontend(family));
  const record: Statement = {
    set: {
      op: "update",
      elem: { elem: { val, timeout: REFUSAL_TIMEOUT } },
      set: `@${REFUSED}`,
      stmt: [{ counter: null }],
    },
  };
  return [[...conditions, record]];
}

/** Of other protocols, the bytes where a port would be say nothing, and would fill the set. */
export const HAS_PORTS: Statement = matches(meta("l4proto"), { set: ["sctp", "tcp", "udp"] });
