import { apiDecoders } from "../../src/kube/decoders.ts";
import { RESOURCE_NAMES, type ResourceName } from "../../src/kube/source.ts";
import { FAMILIES } from "../../src/model/family.ts";
import { World } from "../../src/model/world.ts";
import type { Ruleset } from "../../src/nft/ruleset.ts";
import type { FamilyContext } from "../../src/ruleset/context.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { familyContext } from "./build.ts";
import type { ScenarioName } from "./lab/scenario.ts";
import { townList } from "./stub-api/town.ts";

const decoders = apiDecoders(() => undefined);

/** The world of API objects, as node-1 sees it. */
export function worldOfApi(objects: (resource: ResourceName) => readonly unknown[]): World {
  const world = new World("node-1");
  const put: Readonly<Record<ResourceName, (object: unknown) => void>> = {
    services: (object) => withDefined(decoders.services(object), (service) => world.putService(service)),
    endpointslices: (object) => withDefined(decoders.endpointslices(object), (slice) => world.putSlice(slice)),
    nodes: (object) => withDefined(decoders.nodes(object), (node) => world.putNode(node)),
    servicecidrs: (object) => withDefined(decoders.servicecidrs(object), (cidr) => world.putServiceCIDR(cidr)),
  };
  for (const resource of RESOURCE_NAMES) objects(resource).forEach(put[resource]);
  return world;
}

/** The world of a recorded cluster, as node-1 sees it. */
export function townWorld(town: ScenarioName): World {
  return worldOfApi((resource) => townList(town, resource).items);
}

/** The rules for a recorded cluster, with the options that it was recorded with. */
export function townRuleset(town: ScenarioName): Ruleset {
  return rulesetOfWorld(townWorld(town));
}

/** The surroundings that a world makes, with the options of the recorded clusters where not told otherwise. */
export function contextsOfWorld(
  world: World,
  surroundings: Partial<Omit<FamilyContext, "family">> = {},
): FamilyContext[] {
  return FAMILIES.map((family) =>
    familyContext(family, {
      place: { name: world.node.name, zone: world.node.zone },
      nodeAddress: world.node.addresses[family],
      serviceCIDRs: world.serviceCIDRs().flatMap(({ cidrs }) => cidrs[family]),
      ...surroundings,
    }),
  );
}

/** The rules for a world in the surroundings of {@link contextsOfWorld}. */
export function rulesetOfWorld(world: World, surroundings: Partial<Omit<FamilyContext, "family">> = {}): Ruleset {
  const renderer = new Renderer(world, contextsOfWorld(world, surroundings));
  renderer.update(world.takeChanges());
  return Object.fromEntries(Object.values(renderer.state.families).map(({ table }) => [table.family, table]));
}

function withDefined<T>(value: T | undefined, use: (value: T) => void): void {
  if (value !== undefined) use(value);
}
