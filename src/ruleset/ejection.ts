import type { ObjectCache } from "../model/object-cache.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { Ejection } from "../model/topology.ts";
import type { FamilyContext } from "./node-context.ts";
import type { ServicePortRules } from "./service-port-rules.ts";

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
