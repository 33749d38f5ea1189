import { AppError, badArgument } from "../../base/errors.ts";
import { FAMILIES } from "../../base/family.ts";
import { listText } from "../../base/text.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { hostAddresses } from "../../kernel/addresses.ts";
import { hostFiles } from "../../kernel/host.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { FilesResult, ReadOptions } from "../../kube/files/object-gatherer.ts";
import { readFiles } from "../../kube/files/read-files.ts";
import { type ListedObjects, RESOURCE_NAMES } from "../../kube/source.ts";
import type { EjectedEndpoint } from "../../model/ejected-endpoint.ts";
import type { ServicePortKey } from "../../model/ids.ts";
import { ObjectCache } from "../../model/object-cache.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import { Renderer } from "../../ruleset/renderer.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { RunningDaemon } from "../../socket/daemon-client.ts";
import { receivedNodeContext } from "../../socket/daemon-protocol.ts";
import { nodeContextOf } from "../../sync/node-context.ts";
import { daemonObjects, listClusterObjects } from "./load-objects.ts";
import { type DesiredOrigin, type LoadRequest, type MissingNode, missingNode } from "./load-request.ts";

/** The desired state of one node, with the objects that it was rendered from. */
export interface Desired {
  readonly options: ProxyOptions;
  readonly cache: ObjectCache;
  /** The node's part of the input: one context for each programmed family. */
  readonly nodeContext: NodeContext;
  readonly state: RulesetState;
  /** The service ports that exceed a limit and have no rules, each with the reason. */
  readonly excess: ReadonlyMap<ServicePortKey, string>;
  /** Diagnostics of the objects; those with errors are not in the cache. */
  readonly diagnostics: readonly Diagnostic[];
  /** Warnings about the objects of a cluster, one line each. */
  readonly notices: readonly string[];
  /** Present if the node is not among the objects. Its addresses, zone and pod CIDRs are then unknown. */
  readonly missingNode?: MissingNode | undefined;
  readonly origin: DesiredOrigin;
  /** False if the objects are unavailable: there are none then. */
  readonly objectsKnown: boolean;
}

/** {@link Desired}, with the files that it was rendered from. */
export interface DesiredFromFiles extends Desired {
  readonly files: FilesResult;
}

/**
 * Renders the objects of the request's files; without files, those of its daemon, else those of the cluster.
 * @param held the objects of the daemon, if already known
 * @param onService called with every Service of a cluster, including those of other proxies
 * @throws AppError HOST; BAD_CONFIG; UNREADABLE_INPUT; API_UNAVAILABLE
 */
export async function loadDesired(
  request: LoadRequest,
  held?: ListedObjects,
  onService?: (service: unknown) => void,
): Promise<Desired> {
  const { paths, daemon, ejectsNothing } = request;
  if (paths.length > 0) return await loadFromFiles(request);
  if (daemon !== undefined) {
    refuseUnlisted(daemon);
    const ejected = ejectsNothing ? [] : daemon.state.ejected;
    return await renderObjects(request, held ?? (await daemonObjects(daemon)), ejected);
  }
  const objects = await listClusterObjects(request, onService);
  const { missingNode: missing, notices, server } = objects;
  return { ...(await renderObjects(request, objects, [], server)), notices, missingNode: missing };
}

/** A cluster without objects. */
export const NO_OBJECTS: ListedObjects = { services: [], endpointSlices: [], nodes: [], serviceCIDRs: [] };

/**
 * Loads the desired state as {@link loadDesired} does. If no API server answers, or none has answered the
 * daemon, the result has no objects, and a notice says so.
 * @param without the command's behaviour without objects, for the notice: `following the kernel's rules
 * alone`; undefined if it needs them
 */
export async function loadDesiredIfAvailable(
  request: LoadRequest,
  without: string | undefined,
  onService?: (service: unknown) => void,
  held?: ListedObjects,
): Promise<Desired> {
  const { paths, daemon } = request;
  try {
    return await loadDesired(request, held, onService);
  } catch (error) {
    if (without === undefined || paths.length > 0 || !(error instanceof AppError)) throw error;
    if (daemon !== undefined && error.code !== "API_UNAVAILABLE") throw error;
    const nothing = await renderObjects(request, NO_OBJECTS);
    const notices = [`warning: objects unavailable, ${without}: ${error.message}`];
    return { ...nothing, notices, objectsKnown: false };
  }
}

/**
 * Refuses a daemon that has not listed every resource since its start: what it holds is not the cluster's
 * state.
 */
function refuseUnlisted({ state: { nodeName, sources } }: RunningDaemon): void {
  const awaited = RESOURCE_NAMES.filter((name) => !sources[name].synced);
  if (awaited.length === 0) return;
  const failure = awaited.map((name) => sources[name].failure).find((reason) => reason !== "");
  const reason = failure === undefined ? "" : `: ${failure}`;
  throw new AppError(
    "API_UNAVAILABLE",
    `the daemon on ${nodeName} has not listed ${listText(awaited)} since its start${reason}`,
    { hint: "rules of an earlier run stay in force: nft-proxy explain --live ADDRESS:PORT follows them" },
  );
}

/**
 * Renders the objects of the request's files.
 * @throws AppError BAD_ARGUMENT without files; UNREADABLE_INPUT; BAD_CONFIG
 */
export async function loadFromFiles(request: LoadRequest, read: ReadOptions = {}): Promise<DesiredFromFiles> {
  if (request.paths.length === 0) {
    throw badArgument("no objects given: use --from PATH", {
      hint: "files or directories of YAML or JSON, or - for standard input",
    });
  }
  const { features } = request.options;
  const files = await readFiles(request.paths, request.stdin, { ...read, features });
  const { services, endpointSlices, nodes, serviceCIDRs } = files.objects;
  const rendered = await renderObjects(request, {
    services: services.map(({ value }) => value),
    endpointSlices: endpointSlices.map(({ value }) => value),
    nodes: nodes.map(({ value }) => value),
    serviceCIDRs: serviceCIDRs.map(({ value }) => value),
  });
  const names = nodes.map(({ value }) => value.name);
  return {
    ...rendered,
    files,
    diagnostics: files.diagnostics,
    missingNode: missingNode(request.nodeName, names),
  };
}

/**
 * Renders objects that were read before, for the node and with the options of the request.
 * @param ejected the endpoints that passive health checks ejected
 * @param server the API server that was asked, and the context of the kubeconfig; absent for other objects
 */
async function renderObjects(
  request: LoadRequest,
  { services, endpointSlices, nodes, serviceCIDRs }: ListedObjects,
  ejected: readonly EjectedEndpoint[] = [],
  server?: string,
): Promise<Desired> {
  const { options, nodeName, daemon, paths } = request;
  const source = daemon === undefined ? "cluster" : "daemon";
  const cache = new ObjectCache(nodeName, options);
  for (const node of nodes) cache.putNode(node);
  for (const serviceCIDR of serviceCIDRs) cache.putServiceCIDR(serviceCIDR);
  for (const service of services) cache.putService(service);
  for (const slice of endpointSlices) cache.putSlice(slice);
  for (const { family, target, services: of } of ejected) cache.setEjected(family, target, true, of);
  const nodeContext =
    paths.length === 0 && daemon !== undefined
      ? receivedNodeContext(daemon.state.nodeContext)
      : nodeContextOf(options, cache, { families: FAMILIES, ...(await hostAddresses(hostFiles)) });
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const { state, excess } = renderer;
  return {
    options,
    cache,
    nodeContext,
    state,
    excess,
    diagnostics: [],
    notices: [],
    origin: { objects: paths.length > 0 ? "files" : source, server, daemon: daemon?.state },
    objectsKnown: true,
  };
}
