import { concat } from "../../nft/ast/expression.ts";
import type { SetSpec } from "../../nft/ast/ruleset.ts";
import { packetFrontend, sourceAddress } from "../../ruleset/keys.ts";
import type { RulesetPart, Settings } from "../../ruleset/node-context.ts";
import { addressType, PLAIN } from "../../ruleset/set-specs.ts";

/** The name of the feature. */
export const FEATURE = "refusal-record";

/** Client and frontend of each connection that was refused or dropped; filled by packets. */
export const REFUSED = "refused";

/** Time that the set has an element after the client's last packet. Seconds. */
export const REMEMBERED = 3600;

/** Maximum number of elements of the set; 0 for no record. */
export function sizeOf(settings: Settings): number {
  return (settings as { readonly refusalLogSize?: number }).refusalLogSize ?? 0;
}

export const rules: RulesetPart = {
  name: FEATURE,
  isAlways: () => true,
  specs: ({ family, settings }): SetSpec[] => {
    const address = addressType(family);
    const key = [address, address, "inet_proto", "inet_service"] as const;
    // The rules have the counters, not the set: before Linux 5.11, elements added by a rule lack the set's
    // counters.
    return [{ ...PLAIN, name: REFUSED, key, dynamic: true, size: sizeOf(settings) }];
  },
  // A full set ends only this rule, not the refusal.
  beforeRefusal: ({ family }, conditions) => {
    const val = concat(sourceAddress(family), ...packetFrontend(family));
    const elem = { elem: { val, timeout: REMEMBERED } };
    return [[...conditions, { set: { op: "update", elem, set: `@${REFUSED}`, stmt: [{ counter: null }] } }]];
  },
};
