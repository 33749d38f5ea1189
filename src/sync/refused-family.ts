import { FAMILIES, type Family } from "../base/family.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";

/**
 * Finds the family whose table is refused, when the other one alone is accepted: a kernel without IPv6, or without a
 * feature for it.
 * @param accepts whether a ruleset would be accepted, whatever the kernel has now
 * @returns undefined when both are refused or accepted, or there is only one
 */
export async function refusedFamily(
  ruleset: Ruleset,
  accepts: (ruleset: Ruleset) => Promise<boolean>,
): Promise<Family | undefined> {
  const refused: Family[] = [];
  const programmed = FAMILIES.filter((family) => ruleset[family] !== undefined);
  for (const family of programmed) {
    const table = ruleset[family];
    if (table !== undefined && !(await accepts({ [family]: table }))) refused.push(family);
  }
  return refused.length === 1 && programmed.length > 1 ? refused[0] : undefined;
}
