import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { mayProbe } from "../ruleset/passive-health.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { ATTEMPTS, ENDPOINTS } from "../ruleset/sets.ts";

/**
 * Ejects the endpoints that an earlier process ejected: the kernel has counters for them, but no list
 * contains them.
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
  for (const { family, sets } of Object.values(kernel)) {
    const ejected = new Set(sets.get(ATTEMPTS)?.elements.keys());
    if (ejected.size === 0) continue;
    for (const target of sets.get(ENDPOINTS)?.elements.values() ?? []) ejected.delete(target);
    if (ejected.size === 0) continue;
    for (const { port, watched } of families[family]?.allServicePortRules() ?? []) {
      for (const target of watched) {
        if (!ejected.has(target) || !mayProbe(family, target, nodeContext)) continue;
        services.add(port.service.name);
        cache.setEjected(family, target, true, []);
      }
    }
  }
  return services;
}
