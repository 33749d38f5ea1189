import { concat, matches, meta } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import { packetFrontend, sourceAddress } from "./keys.ts";
import type { FamilyContext } from "./node-context.ts";
import { PORT_PROTOCOLS, REFUSED } from "./sets.ts";

/** The set that records refusals, and for how long after the client's last packet. Seconds. */
export const REFUSAL_RECORD = { set: REFUSED, timeout: 3600 } as const;

/**
 * Rules that record a refused or dropped packet by client and frontend; none if recording is off. They
 * precede the rule that refuses: a full set ends only the recording rule, not the refusal.
 * @param conditions the conditions of the refusal
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
      elem: { elem: { val, timeout: REFUSAL_RECORD.timeout } },
      set: `@${REFUSAL_RECORD.set}`,
      stmt: [{ counter: null }],
    },
  };
  return [[...conditions, record]];
}

/**
 * Excludes protocols without ports. A named set, because each anonymous one is a set of the table, and the
 * kernel looks at all sets of a table for each change.
 */
export const HAS_PORTS: Statement = matches(meta("l4proto"), `@${PORT_PROTOCOLS}`);
