import { matches, meta } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import type { FamilyContext } from "./node-context.ts";
import { PORT_PROTOCOLS } from "./sets.ts";

/** The rules of features that precede a rule with these conditions which refuses or drops connections. */
export function beforeRefusal(context: FamilyContext, ...conditions: readonly Statement[]): Rule[] {
  return context.features.flatMap((feature) => feature.beforeRefusal?.(context, conditions) ?? []);
}

/**
 * Excludes protocols without ports. A named set, because each anonymous one is a set of the table, and the
 * kernel looks at all sets of a table for each change.
 */
export const HAS_PORTS: Statement = matches(meta("l4proto"), `@${PORT_PROTOCOLS}`);
