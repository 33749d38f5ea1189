import type { ObjectCache } from "../model/object-cache.ts";

/**
 * The Pods (`namespace/name`) by their addresses, as far as EndpointSlices name them: a Pod that is no endpoint of any
 * Service is in none. An address with several Pods, or with endpoints that are none, is a node's, whose programs have it too:
 * it names no Pod.
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
