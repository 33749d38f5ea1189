import { AppError } from "../base/errors.ts";
import { FAMILIES } from "../base/family.ts";
import type { ProxyOptions } from "../config/options.ts";
import { localAddresses } from "../kernel/addresses.ts";
import { hostFiles } from "../kernel/host.ts";
import type { Diagnostic } from "../kube/files/diagnostic.ts";
import type { FilesResult } from "../kube/files/object-gatherer.ts";
import { type ReadOptions, readFiles } from "../kube/files/read-files.ts";
import type { ListedObjects } from "../kube/reflector/list-once.ts";
import { ObjectCache } from "../model/object-cache.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { Renderer } from "../ruleset/renderer.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { nodeContextOf } from "../sync/node-context.ts";
import { type Argv, listArgument } from "./command.ts";
import { commandOptions, nodeNameOf } from "./options.ts";
import { clusterObjectsNow } from "./sources.ts";

/** What some objects ask of this node. */
export interface Desired {
  readonly options: ProxyOptions;
  readonly cache: ObjectCache;
  /** What the rules depend on besides the object cache, for each family. */
  readonly nodeContext: NodeContext;
  readonly state: RulesetState;
  /** What is wrong with the objects; those with errors were left out. */
  readonly problems: readonly Diagnostic[];
  /** Warnings about the options, and about objects of a cluster. */
  readonly notices: readonly string[];
}

/** {@link Desired}, and what was read for it. */
export interface DesiredFromFiles extends Desired {
  readonly files: FilesResult;
}

/** How to read files. */
export interface LoadOptions extends ReadOptions {
  /** The paths, if not those of `--from`. */
  readonly paths?: readonly string[];
}

/**
 * Renders the objects of `--from`, or of the cluster as it is now.
 * @throws AppError BAD_CONFIG, UNREADABLE_INPUT, API_UNAVAILABLE
 */
export async function loadDesired(argv: Argv): Promise<Desired> {
  if (listArgument(argv, "from").length > 0) return await loadFromFiles(argv);
  const { options, notices } = commandOptions(argv);
  const said = [...notices];
  const objects = await clusterObjectsNow(options, nodeNameOf(options), (text) => said.push(text));
  return { ...(await renderObjects(options, objects)), problems: [], notices: said };
}

/**
 * Renders the objects of `--from`, or of `paths`.
 * @throws AppError BAD_ARGUMENT without either, UNREADABLE_INPUT, BAD_CONFIG
 */
export async function loadFromFiles(argv: Argv, load: LoadOptions = {}): Promise<DesiredFromFiles> {
  const { options, notices } = commandOptions(argv);
  const paths = load.paths ?? listArgument(argv, "from");
  if (paths.length === 0) {
    throw new AppError("BAD_ARGUMENT", "say where the objects are: --from PATH...", {
      hint: "files or directories of YAML or JSON, or - for standard input",
    });
  }
  const files = await readFiles(paths, process.stdin, load);
  const { services, endpointSlices, nodes, serviceCIDRs } = files.objects;
  const rendered = await renderObjects(options, {
    services: services.map(({ value }) => value),
    endpointSlices: endpointSlices.map(({ value }) => value),
    nodes: nodes.map(({ value }) => value),
    serviceCIDRs: serviceCIDRs.map(({ value }) => value),
  });
  return { ...rendered, files, problems: files.problems, notices };
}

/** Renders objects that were read already. */
export async function renderObjects(
  options: ProxyOptions,
  { services, endpointSlices, nodes, serviceCIDRs }: ListedObjects,
): Promise<Omit<Desired, "problems" | "notices">> {
  const cache = new ObjectCache(nodeNameOf(options));
  for (const node of nodes) cache.putNode(node);
  for (const serviceCIDR of serviceCIDRs) cache.putServiceCIDR(serviceCIDR);
  for (const service of services) cache.putService(service);
  for (const slice of endpointSlices) cache.putSlice(slice);
  const addresses = { ip: await localAddresses("ip", hostFiles), ip6: await localAddresses("ip6", hostFiles) };
  const nodeContext = nodeContextOf(options, cache, { families: FAMILIES, addresses });
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  return { options, cache, nodeContext, state: renderer.state };
}
