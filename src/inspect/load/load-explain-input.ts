import { AppError } from "../../base/errors.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { allLocalAddresses } from "../../kernel/addresses.ts";
import { affinityEntry } from "../../kernel/affinity-entry.ts";
import { hostFiles } from "../../kernel/host.ts";
import { Nft } from "../../kernel/nft.ts";
import { readOtherTables } from "../../kernel/other-tables.ts";
import { interfaceLookup } from "../../kernel/routes.ts";
import { unservedAmong } from "../../kube/decode/ignored-service.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { writtenServices } from "../../kube/files/read-files.ts";
import { familyOf } from "../../model/ip.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import { frontendKey, nodePortKey } from "../../ruleset/keys.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { AFFINITY, LISTS } from "../../ruleset/sets.ts";
import type { DaemonObjects } from "../../sync/daemon-protocol.ts";
import { type ExplainInput, explainInputOf, type LiveRules } from "../explain/explain-input.ts";
import type { ExplainQuery } from "../explain/query.ts";
import { type Desired, loadFromFiles, renderObjects } from "./desired.ts";
import { liveTables } from "./kernel-tables.ts";
import { daemonObjects, listClusterObjects, unservedServices } from "./load-objects.ts";
import { type DesiredOrigin, type LoadRequest, type MissingNode, originOf } from "./load-request.ts";

/** The input of an explanation, and what to tell the user about the objects. */
export interface LoadedExplainInput {
  readonly input: ExplainInput;
  readonly diagnostics: readonly Diagnostic[];
  /** One line each. */
  readonly notices: readonly string[];
  /** Present when the node is not among the objects. */
  readonly missingNode?: MissingNode;
  readonly origin: DesiredOrigin;
}

type LoadedObjects = Pick<ExplainInput, "cache" | "nodeContext" | "state" | "ignored" | "loadBalancers"> &
  Omit<LoadedExplainInput, "input" | "origin"> & {
    /** False when the objects are not known. */
    readonly comparable: boolean;
  };

/**
 * Loads the objects from files or the cluster, and the kernel's tables when `isLive`. One connection can be followed
 * through these without objects: then no API server is needed.
 * @throws AppError UNREADABLE_INPUT; BAD_CONFIG; API_UNAVAILABLE; NFT_OUTPUT for tables that cannot be read
 */
export async function loadExplainInput(
  request: LoadRequest,
  query?: ExplainQuery,
  isLive = false,
): Promise<LoadedExplainInput> {
  const ofDaemon =
    isLive && query !== undefined && request.daemon !== undefined ? await liveTables(request) : undefined;
  const { diagnostics, comparable, missingNode, ...loaded } =
    request.paths.length > 0
      ? await objectsOfFiles(request)
      : await objectsHere(request, query, isLive, ofDaemon?.objects);
  const tables = isLive && query !== undefined ? (ofDaemon ?? (await liveTables(request))) : undefined;
  const { notices: objectNotices, ...parts } = loaded;
  const notices = [...objectNotices, ...(tables?.notices ?? [])];
  const hostAddresses = await allLocalAddresses(hostFiles);
  const live =
    tables === undefined || query === undefined
      ? {}
      : { live: await liveRules(request.options, tables.ruleset, query) };
  if (live.live !== undefined) parts.state.adopt(live.live.ruleset);
  const input = explainInputOf({
    ...parts,
    objectsKnown: comparable,
    hostAddresses,
    ...live,
    ...(request.paths.length > 0 ? {} : vanishedOf(request.daemon)),
  });
  return {
    input,
    diagnostics,
    notices,
    origin: originOf(request),
    ...(missingNode === undefined ? {} : { missingNode }),
  };
}

function vanishedOf(daemon: LoadRequest["daemon"]): Pick<ExplainInput, "vanished"> {
  const { vanished: endpoints, now } = daemon?.state ?? {};
  return endpoints === undefined || now === undefined ? {} : { vanished: { endpoints, now } };
}

async function liveRules({ nftPath }: ProxyOptions, ruleset: Ruleset, query: ExplainQuery): Promise<LiveRules> {
  const nft = new Nft({ path: nftPath });
  const tables = { ruleset, otherTables: await readOtherTables(nft), interfaceTo: await interfaceLookup(hostFiles) };
  if (query.kind !== "connection" || query.question.fromAddress === undefined)
    return { ...tables, affinityEntries: [] };
  const { fromAddress, to, protocol, port } = query.question;
  const family = familyOf(to);
  const lists = ruleset[family]?.sets.get(LISTS)?.elements;
  const frontends = [frontendKey(to, protocol, port), nodePortKey(family, protocol, port)];
  const ids = frontends.flatMap((key) => parseId(Number(lists?.get(key) ?? 0)) ?? []);
  const entries = ids
    .filter(({ isSticky }) => isSticky)
    .map(({ servicePort }) => affinityEntry(nft, family, AFFINITY, fromAddress, servicePort));
  return { ...tables, affinityEntries: (await Promise.all(entries)).flatMap((entry) => entry ?? []) };
}

async function objectsOfFiles(request: LoadRequest): Promise<LoadedObjects> {
  const { files, notices, diagnostics, missingNode, ...desired } = await loadFromFiles(request, { thorough: true });
  const written = writtenServices(files);
  const missing = missingNode === undefined ? {} : { missingNode };
  return { ...withIgnored(desired, written), notices, diagnostics, comparable: true, ...missing };
}

async function objectsHere(
  request: LoadRequest,
  query: ExplainQuery | undefined,
  isLive: boolean,
  held?: DaemonObjects,
): Promise<LoadedObjects> {
  if (request.daemon === undefined) return await objectsOfCluster(request, isLive && query?.kind === "connection");
  const { cache, nodeContext, state } = await renderObjects(request, held ?? (await daemonObjects(request.daemon)));
  const rendered = { cache, nodeContext, state, diagnostics: [], comparable: true };
  if (!isOfOthers(query, state, cache)) return { ...rendered, ignored: [], loadBalancers: [], notices: [] };
  const { ignored, loadBalancers, problem } = await unservedServices(request.daemon);
  const notices = problem === undefined ? [] : [`warning: Services of other proxies are unknown: ${problem}`];
  return { ...rendered, ignored, loadBalancers, notices };
}

/** Whether a query is about something that the daemon does not hold, which is only Services that it serves. */
function isOfOthers(query: ExplainQuery | undefined, state: RulesetState, cache: ObjectCache): boolean {
  if (query?.kind === "service") return cache.service(query.named.service) === undefined;
  if (query?.kind !== "connection") return false;
  const { to, protocol, port } = query.question;
  return state.families[familyOf(to)]?.frontendAt(to, protocol, port, true) === undefined;
}

/** @param isDispensable whether the kernel's rules answer the query without objects */
async function objectsOfCluster(request: LoadRequest, isDispensable: boolean): Promise<LoadedObjects> {
  const written: unknown[] = [];
  const notices: string[] = [];
  const keep = (service: unknown) => written.push(service);
  try {
    const objects = await listClusterObjects(request, (text) => notices.push(text), keep);
    const { missingNode } = objects;
    return {
      ...withIgnored(await renderObjects(request, objects), written),
      notices,
      diagnostics: [],
      comparable: true,
      ...(missingNode === undefined ? {} : { missingNode }),
    };
  } catch (error) {
    if (!isDispensable || !(error instanceof AppError)) throw error;
    const nothing = { services: [], endpointSlices: [], nodes: [], serviceCIDRs: [] };
    notices.push(`warning: objects unavailable, following the kernel's rules alone: ${error.message}`);
    return { ...withIgnored(await renderObjects(request, nothing), []), notices, diagnostics: [], comparable: false };
  }
}

function withIgnored(
  { cache, nodeContext, state }: Pick<Desired, "cache" | "nodeContext" | "state">,
  written: readonly unknown[],
): Omit<LoadedObjects, "notices" | "diagnostics" | "comparable"> {
  return { cache, nodeContext, state, ...unservedAmong(written) };
}
