import { AppError } from "../base/errors.ts";
import type { ProxyOptions } from "../config/options.ts";
import { familyContexts } from "../daemon/contexts.ts";
import { localAddresses } from "../kernel/addresses.ts";
import { hostFiles } from "../kernel/host.ts";
import { readFiles } from "../kube/files.ts";
import type { FileObjects } from "../kube/files-gatherer.ts";
import type { Problem } from "../kube/files-problem.ts";
import { FAMILIES } from "../model/family.ts";
import { World } from "../model/world.ts";
import { Renderer } from "../ruleset/renderer.ts";
import type { RulesetState } from "../ruleset/state.ts";
import { type Argv, listArgument } from "./command.ts";
import { commandOptions, nodeNameOf } from "./options.ts";

/** What some objects ask of this node. */
export interface Desired {
  readonly options: ProxyOptions;
  readonly world: World;
  readonly state: RulesetState;
  readonly objects: FileObjects;
  /** What is wrong with the objects; those with errors were left out. */
  readonly problems: readonly Problem[];
  /** Warnings about the options. */
  readonly notices: readonly string[];
}

/**
 * Reads the objects of `--from` and renders them.
 * @throws AppError BAD_ARGUMENT without `--from`, UNREADABLE_INPUT, BAD_CONFIG
 */
export async function loadDesired(argv: Argv): Promise<Desired> {
  const { options, notices } = commandOptions(argv);
  const paths = listArgument(argv, "from");
  if (paths.length === 0) {
    throw new AppError("BAD_ARGUMENT", "say where the objects are: --from PATH...", {
      hint: "files or directories of YAML or JSON, or - for standard input",
    });
  }
  const { objects, problems } = await readFiles(paths, process.stdin);
  const world = new World(nodeNameOf(options));
  for (const { value } of objects.nodes) world.putNode(value);
  for (const { value } of objects.serviceCIDRs) world.putServiceCIDR(value);
  for (const { value } of objects.services) world.putService(value);
  for (const { value } of objects.endpointSlices) world.putSlice(value);
  const addresses = { ip: await localAddresses("ip", hostFiles), ip6: await localAddresses("ip6", hostFiles) };
  const renderer = new Renderer(world, familyContexts(options, world, { families: FAMILIES, addresses }));
  renderer.update(world.takeChanges());
  return { options, world, state: renderer.state, objects, problems, notices };
}
