import type { ServicePortKey } from "../model/ids.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { diffRuleset, keysOf, type TableDelta } from "../nft/delta.ts";
import type { FamilyState } from "./family-state.ts";
import type { RulesetState } from "./ruleset-state.ts";
import { AFFINITY_IDS, ENDPOINTS } from "./sets.ts";

/** Options of {@link adoptNumbers}. */
interface AdoptOptions {
  /** Keeps the list ids, for a state that was in the kernel before. */
  readonly keepsIds?: boolean | undefined;
  /** The part of the ruleset that the kernel can have; all of it if absent. */
  readonly desired?: Ruleset;
}

/**
 * Gives service ports the list ids, and endpoints the numbers, that the kernel has for them. They are free
 * choices, but affinity entries contain them: clients keep their endpoints when the daemon restarts.
 * @returns the remaining differences
 */
export function adoptNumbers(
  state: RulesetState,
  kernel: Ruleset,
  { keepsIds, desired = state.ruleset }: AdoptOptions = {},
): TableDelta[] {
  for (const family of keepsIds ? [] : Object.values(state.families)) {
    const actual = kernel[family.table.family];
    if (actual !== undefined) family.adoptIds(actual);
  }
  const deltas = diffRuleset(kernel, desired);
  const adopting = deltas.filter((delta) => {
    const [family, actual] = [state.families[delta.family], kernel[delta.family]];
    if (family === undefined || actual === undefined || delta.mode !== "change") return false;
    const keys = servicePortsIn(delta, family);
    family.adoptPlacement(actual, keys);
    return keys.size > 0;
  });
  return adopting.length > 0 ? diffRuleset(kernel, desired) : deltas;
}

/** The service ports whose lists a delta changes. */
function servicePortsIn({ elements }: TableDelta, family: FamilyState): ReadonlySet<ServicePortKey> {
  const found = new Set<ServicePortKey>();
  for (const changes of elements) {
    if (changes.spec.name !== ENDPOINTS && changes.spec.name !== AFFINITY_IDS) continue;
    for (const key of keysOf(changes)) {
      const owner = family.ownerOfElement(key);
      if (owner !== undefined) found.add(owner.key);
    }
  }
  return found;
}
