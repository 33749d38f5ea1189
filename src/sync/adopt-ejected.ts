import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { keysInSet } from "../ruleset/ejection.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { ENDPOINTS } from "../ruleset/sets.ts";

/**
 * Ejects the endpoints that an earlier process ejected: the kernel has them in the set of a feature, but no
 * list contains them.
 * @param kernel our tables
 * @param state the desired state, with all endpoints
 * @returns the Services that have them, which must be rendered again
 */
export function adoptEjected(
  cache: ObjectCache,
  kernel: Ruleset,
  { families }: Pick<RulesetState, "families">,
  nodeContext: NodeContext,
): ReadonlySet<ServiceName> {
  const services = new Set<ServiceName>();
  for (const context of nodeContext) {
    const { family } = context;
    const sets = kernel[family]?.sets;
    for (const { set, mayTry } of context.features.flatMap(({ ejection }) => ejection ?? [])) {
      const ejected = new Set(sets?.get(set)?.elements.keys());
      if (ejected.size === 0) continue;
      for (const target of sets?.get(ENDPOINTS)?.elements.values() ?? []) ejected.delete(target);
      if (ejected.size === 0) continue;
      for (const rules of families[family]?.allServicePortRules() ?? []) {
        for (const target of keysInSet(rules, set)) {
          if (!ejected.has(target) || !mayTry(target, context)) continue;
          services.add(rules.port.service.name);
          cache.setEjected(family, target, true, []);
        }
      }
    }
  }
  return services;
}
