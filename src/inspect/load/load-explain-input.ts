import { durationText } from "../../base/duration.ts";
import type { Family } from "../../base/family.ts";
import { FRONTEND_KINDS } from "../../features/frontends.ts";
import { hostAddresses } from "../../kernel/addresses.ts";
import { hostFiles } from "../../kernel/host.ts";
import { openTables } from "../../kernel/netlink-tables.ts";
import { listOtherTables, otherTables } from "../../kernel/other-tables.ts";
import { interfaceLookup } from "../../kernel/routes.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import { type UnservedServices, unservedAmong } from "../../kube/decode/ignored-service.ts";
import { writtenServices } from "../../kube/files/read-files.ts";
import type { ListedObjects } from "../../kube/source.ts";
import { familyOf } from "../../model/ip.ts";
import type { Ruleset, SetSpec } from "../../nft/ast/ruleset.ts";
import { joinParts } from "../../nft/elements.ts";
import { adoptNumbers } from "../../ruleset/adopt-numbers.ts";
import { CLIENTS_OF } from "../../ruleset/list-ids.ts";
import { frontendsOf, listIdOf } from "../../ruleset/programmed-frontend.ts";
import { AFFINITY } from "../../ruleset/sets.ts";
import { askDaemon } from "../../socket/daemon-client.ts";
import { type AffinityEntry, type ExplainInput, hostOf, type LiveRules } from "../explain/explain-input.ts";
import type { ExplainQuery } from "../explain/query.ts";
import { type Desired, loadDesiredIfAvailable, loadFromFiles } from "./desired.ts";
import { listingNft, liveTables } from "./kernel-tables.ts";
import { unservedServices } from "./load-objects.ts";
import type { LoadRequest } from "./load-request.ts";

/** The input of an explanation, with diagnostics and notices about the objects. */
export interface LoadedExplainInput
  extends Pick<Desired, "diagnostics" | "notices" | "missingNode" | "origin"> {
  readonly input: ExplainInput;
}

/**
 * The rules to follow connections through: those of the desired state, those in the kernel, or those in the
 * kernel only if the objects are unavailable.
 */
export type FollowedRules = "desired" | "live" | "live-without-objects";

/**
 * Loads the objects from files, the daemon or the cluster, and the kernel's tables if these are followed. A
 * single connection and refused connections can be followed through the kernel's tables without objects or
 * API server.
 * @param query absent for refused connections
 * @throws AppError UNREADABLE_INPUT; BAD_CONFIG; API_UNAVAILABLE; NFT_OUTPUT for tables that cannot be read
 */
export async function loadExplainInput(
  request: LoadRequest,
  rules: FollowedRules,
  query?: ExplainQuery,
): Promise<LoadedExplainInput> {
  // Comes first, because a daemon returns objects and tables of the same moment.
  const live = rules === "live" ? await liveTables(request) : undefined;
  const loaded = await loadObjects(request, query, rules, live?.objects);
  const tables = loaded.objectsKnown ? live : (live ?? (await liveTables(request)));
  const { cache, nodeContext, state, unserved, objectsKnown, diagnostics, missingNode, origin } = loaded;
  // Adopts the kernel's list ids, so that both sides have the same name for a list.
  if (tables !== undefined) adoptNumbers(state, tables.ruleset);
  const input = {
    cache,
    nodeContext,
    state,
    host: hostOf(nodeContext, (await hostAddresses(hostFiles)).local),
    ignored: unserved.ignored,
    loadBalancers: unserved.loadBalancers,
    objectsKnown,
    live: tables && (await liveRules(request, tables.ruleset, query)),
    daemon: request.paths.length > 0 ? undefined : request.daemon?.state,
  };
  const notices = [...loaded.notices, ...(tables?.notices ?? [])];
  return { input, diagnostics, notices, missingNode, origin };
}

async function liveRules(
  { options, daemon }: LoadRequest,
  ruleset: Ruleset,
  query: ExplainQuery | undefined,
): Promise<LiveRules> {
  const interfaceTo = await interfaceLookup(hostFiles);
  // Only nft-proxy's own tables record refusals.
  if (query === undefined) return { ruleset, interfaceTo };
  const nft = listingNft(options.nftPath);
  // The daemon pauses its syncs meanwhile: during syncs, nft may never finish listing thousands of sets.
  const listed = daemon === undefined ? undefined : await askDaemon(daemon.socket, "others");
  const tables = { ruleset, otherTables: otherTables(listed ?? (await listOtherTables(nft))), interfaceTo };
  const question = query.kind === "connection" ? query.question : undefined;
  const table = question && ruleset[familyOf(question.to)];
  const spec = table?.sets.get(AFFINITY)?.spec;
  if (question?.fromAddress === undefined || table === undefined || spec === undefined) return tables;
  const { fromAddress, to, protocol, port } = question;
  const reader = await openTables(nft, systemClock);
  const entries = frontendsOf([table], to, protocol, port, FRONTEND_KINDS)
    .flatMap((key) => listIdOf(table, key, FRONTEND_KINDS) ?? [])
    .filter(({ isSticky }) => isSticky)
    .flatMap(({ servicePort }) => Object.values(CLIENTS_OF).map((list) => servicePort + list))
    .map((id) => affinityEntry(reader.tables, table.family, spec, fromAddress, id));
  const found = await Promise.all(entries).finally(() => reader.close());
  return { ...tables, affinityEntries: found.flatMap((entry) => entry ?? []) };
}

/** Loads the desired state, with the Services that nft-proxy does not serve. */
async function loadObjects(
  request: LoadRequest,
  query: ExplainQuery | undefined,
  rules: FollowedRules,
  held: ListedObjects | undefined,
): Promise<Desired & { readonly unserved: UnservedServices }> {
  if (request.paths.length > 0) {
    const desired = await loadFromFiles(request, { thorough: true });
    return { ...desired, unserved: unservedAmong(writtenServices(desired.files)) };
  }
  // Whether the kernel's rules can answer the query without objects.
  const isDispensable = rules === "live" ? query?.kind === "connection" : rules === "live-without-objects";
  const without = isDispensable ? "following the kernel's rules alone" : undefined;
  const written: unknown[] = [];
  const onService = (service: unknown) => written.push(service);
  const desired = await loadDesiredIfAvailable(request, without, onService, held);
  const { daemon } = request;
  if (daemon === undefined || !desired.objectsKnown || !isOfOthers(query, desired))
    return { ...desired, unserved: unservedAmong(written) };
  const unserved = await unservedServices(daemon);
  const { problem } = unserved;
  const notices = problem === undefined ? [] : [`warning: Services of other proxies are unknown: ${problem}`];
  return { ...desired, unserved, notices };
}

/** Whether a query is about a Service that the daemon does not store: it only stores those that it serves. */
function isOfOthers(query: ExplainQuery | undefined, { state, cache }: Desired): boolean {
  if (query?.kind === "service") return cache.service(query.named.service) === undefined;
  if (query?.kind !== "connection") return false;
  const { to, protocol, port } = query.question;
  return state.families[familyOf(to)]?.frontendAt(to, protocol, port, true) === undefined;
}

/**
 * Looks up one client in an affinity map.
 * @param id the Service port's id. If clients have an entry for each of its lists, the list's id is added.
 * @returns undefined if there is no entry for the client, or no such map
 * @throws AppError as {@link TableReader.element} does
 */
export async function affinityEntry(
  tables: Pick<TableReader, "element">,
  family: Family,
  spec: SetSpec,
  client: string,
  id: number,
): Promise<AffinityEntry | undefined> {
  const key = joinParts(id, client);
  const entry = await tables.element(family, spec, key);
  if (entry === undefined) return undefined;
  const expires = durationText(Math.floor((entry.expiresMs ?? 0) / 1000));
  return { family, map: spec.name, key, value: entry.value, expires };
}
