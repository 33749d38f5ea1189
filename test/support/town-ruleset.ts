import { FAMILIES } from "../../src/base/family.ts";
import { apiDecoders } from "../../src/kube/decode/decoders.ts";
import { RESOURCE_NAMES, type ResourceName } from "../../src/kube/source.ts";
import { ObjectCache } from "../../src/model/object-cache.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import type { FamilyContext } from "../../src/ruleset/node-context.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { type ContextOptions, familyContext } from "./build.ts";
import type { ScenarioName } from "./lab/scenario.ts";
import { townList } from "./stub-api/town.ts";

const decoders = apiDecoders(() => undefined);

/** Returns the object cache of node-1 with these API objects. */
export function cacheOfApi(objects: (resource: ResourceName) => readonly unknown[]): ObjectCache {
  const cache = new ObjectCache("node-1");
  const put: Readonly<Record<ResourceName, (object: unknown) => void>> = {
    services: (object) => withDefined(decoders.services(object), (service) => cache.putService(service)),
    endpointslices: (object) =>
      withDefined(decoders.endpointslices(object), (slice) => cache.putSlice(slice)),
    nodes: (object) => withDefined(decoders.nodes(object), (node) => cache.putNode(node)),
    servicecidrs: (object) =>
      withDefined(decoders.servicecidrs(object), (cidr) => cache.putServiceCIDR(cidr)),
  };
  for (const resource of RESOURCE_NAMES) objects(resource).forEach(put[resource]);
  return cache;
}

/** Returns the object cache of node-1 in a recorded cluster. */
export function townCache(town: ScenarioName): ObjectCache {
  return cacheOfApi((resource) => townList(town, resource).items);
}

/** Returns the rules for a recorded cluster, with the options of the recording. */
export function townRuleset(town: ScenarioName, context: ContextOptions = {}): Ruleset {
  return rulesetOfCache(townCache(town), context);
}

/** Returns the node context for an object cache. The default options are those of the recorded clusters. */
export function contextsOfCache(cache: ObjectCache, context: ContextOptions = {}): FamilyContext[] {
  return FAMILIES.map((family) =>
    familyContext(family, {
      place: { name: cache.node.name, zone: cache.node.zone },
      nodeAddress: cache.node.addresses[family],
      serviceCIDRs: cache.serviceCIDRs().flatMap(({ cidrs }) => cidrs[family]),
      ...context,
    }),
  );
}

/** Returns the rules for an object cache in the context of {@link contextsOfCache}. */
export function rulesetOfCache(cache: ObjectCache, context: ContextOptions = {}): Ruleset {
  const renderer = new Renderer(cache, contextsOfCache(cache, context));
  renderer.update(cache.takeDirty());
  return Object.fromEntries(Object.values(renderer.state.families).map(({ table }) => [table.family, table]));
}

function withDefined<T>(value: T | undefined, use: (value: T) => void): void {
  if (value !== undefined) use(value);
}
