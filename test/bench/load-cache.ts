import { resolveOptions } from "../../src/config/resolve.ts";
import type { ServiceCounters } from "../../src/features/service-counters/feature.ts";
import { apiDecoders } from "../../src/kube/decode/decoders.ts";
import { ObjectCache } from "../../src/model/object-cache.ts";
import type { NodeContext } from "../../src/ruleset/node-context.ts";
import { nodeContextOf } from "../../src/sync/node-context.ts";
import { clusterObjects } from "./cluster-files.ts";
import { CLUSTER_CIDR, type ClusterSize, NODE_NAME } from "./cluster-objects.ts";

/** Returns an object cache with all objects, decoded as those of an API server. */
export function loadCache(size: ClusterSize): ObjectCache {
  const cache = new ObjectCache(NODE_NAME);
  const decode = apiDecoders((object, diagnostics) => {
    if (diagnostics.length > 0) throw new Error(`${object} is not sound`);
  });
  for (const object of clusterObjects("services", size)) cache.putService(found(decode.services(object)));
  for (const object of clusterObjects("endpointslices", size))
    cache.putSlice(found(decode.endpointslices(object)));
  for (const object of clusterObjects("nodes", size)) cache.putNode(found(decode.nodes(object)));
  for (const object of clusterObjects("servicecidrs", size))
    cache.putServiceCIDR(found(decode.servicecidrs(object)));
  return cache;
}

function found<T>(object: T | undefined): T {
  if (object === undefined) throw new Error("an object is ignored");
  return object;
}

/** Returns the node context of the default options. */
export function contextsOf(cache: ObjectCache, serviceCounters: ServiceCounters): NodeContext {
  const { options: defaults } = resolveOptions();
  const options = {
    ...defaults,
    settings: { ...defaults.settings, serviceCounters },
    clusterCIDRs: { ip: [CLUSTER_CIDR], ip6: [] },
  };
  return nodeContextOf(options, cache, {
    families: ["ip", "ip6"],
    addresses: { ip: [], ip6: [] },
    local: [],
  });
}
