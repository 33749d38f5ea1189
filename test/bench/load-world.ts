import { resolveOptions } from "../../src/config/resolve.ts";
import { familyContexts } from "../../src/daemon/contexts.ts";
import { apiDecoders } from "../../src/kube/decoders.ts";
import type { ServiceCounters } from "../../src/model/service-counters.ts";
import { World } from "../../src/model/world.ts";
import type { FamilyContext } from "../../src/ruleset/context.ts";
import { CLUSTER_CIDR, NODE_NAME, type WorldSize } from "./world.ts";
import { worldObjects } from "./world-files.ts";

/** A world with all its objects in it, decoded as they come from an API server. */
export function loadWorld(size: WorldSize): World {
  const world = new World(NODE_NAME);
  const decode = apiDecoders((object) => {
    throw new Error(`${object} is not sound`);
  });
  for (const object of worldObjects("services", size)) world.putService(found(decode.services(object)));
  for (const object of worldObjects("endpointslices", size)) world.putSlice(found(decode.endpointslices(object)));
  for (const object of worldObjects("nodes", size)) world.putNode(found(decode.nodes(object)));
  for (const object of worldObjects("servicecidrs", size)) world.putServiceCIDR(found(decode.servicecidrs(object)));
  return world;
}

function found<T>(object: T | undefined): T {
  if (object === undefined) throw new Error("an object is passed over");
  return object;
}

/** The surroundings that the default options make. */
export function contextsOf(world: World, serviceCounters: ServiceCounters): FamilyContext[] {
  const options = { ...resolveOptions().options, serviceCounters, clusterCIDRs: { ip: [CLUSTER_CIDR], ip6: [] } };
  return familyContexts(options, world, { families: ["ip", "ip6"], addresses: { ip: [], ip6: [] } });
}
