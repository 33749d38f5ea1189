import type { Ejection } from "../model/endpoint-choice.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import type { FamilyContext, NodeContext } from "./node-context.ts";
import type { RulesetState } from "./ruleset-state.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import { ENDPOINTS } from "./sets.ts";

/** The endpoints that are taken out of the lists of a service port; undefined if no feature may eject any. */
export function ejectionFor(
  port: ServicePort,
  { ejected }: Pick<ObjectCache, "ejected">,
  context: FamilyContext,
): Ejection | undefined {
  const targets = ejected[port.family];
  if (targets.size === 0) return undefined;
  const shares = context.features.flatMap(({ ejection }) => ejection?.mostOf(port, context) ?? []);
  return shares.length === 0 ? undefined : { targets, maxEjected: Math.max(...shares) };
}

/** Whether a feature may take endpoints out of the lists of a service port. */
export function mayEject(port: ServicePort, context: FamilyContext): boolean {
  return context.features.some(({ ejection }) => ejection?.mostOf(port, context) !== undefined);
}

/** The keys that a service port has in a set of a feature. */
export function keysInSet({ ofFeatures = [] }: Pick<ServicePortRules, "ofFeatures">, name: string): string[] {
  const all = ofFeatures.flatMap(({ elements }) => elements);
  return all.flatMap(({ set, key }) => (set === name ? key : []));
}

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
