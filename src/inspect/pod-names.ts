import type { ObjectCache } from "../model/object-cache.ts";

/**
 * The Pods (`namespace/name`) by their addresses, as far as EndpointSlices name them: a Pod that is no endpoint of any
 * Service is in none.
 */
export function podNames(cache: ObjectCache): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const service of cache.serviceNames()) {
    for (const { endpoints } of cache.slices(service)) {
      for (const { address, pod } of endpoints) if (pod !== "") names.set(address, pod);
    }
  }
  return names;
}
