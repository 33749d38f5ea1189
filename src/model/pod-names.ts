import type { ObjectCache } from "./object-cache.ts";

/**
 * The Pods (`namespace/name`) by address, as far as EndpointSlices name them. Pods that are no endpoint of a
 * Service are missing. An address with several Pods, or with endpoints that are no Pods, belongs to a node
 * and is excluded.
 */
export function podNames(cache: ObjectCache): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  const shared = new Set<string>();
  for (const service of cache.serviceNames()) {
    for (const { endpoints } of cache.slices(service)) {
      for (const { address, pod } of endpoints) {
        if ((names.get(address) ?? pod) !== pod || pod === "") shared.add(address);
        names.set(address, pod);
      }
    }
  }
  for (const address of shared) names.delete(address);
  return names;
}
