import { isDeepStrictEqual } from "node:util";
import { splitPath } from "../../base/schema-error.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { type FromFile, servicesByName } from "../../kube/files/object-gatherer.ts";
import type { Node } from "../../model/node.ts";
import type { Service } from "../../model/service.ts";
import type { AnyTable } from "../../nft/ast/any-table.ts";
import { contextOf, type FamilyContext, type NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { prepareTables } from "../../trace/evaluate.ts";
import type { WeightedDestination } from "../../trace/outcome.ts";
import type { Host } from "../../trace/packet.ts";
import { sharesByEndpoint } from "../connection-result.ts";
import { hostOf } from "../explain/explain-input.ts";
import { type DesiredFromFiles, loadFromFiles } from "../load/desired.ts";
import type { LoadRequest } from "../load/load-request.ts";
import { type Behaviour, behaviourOf } from "./behaviour.ts";
import {
  type ComparedClient,
  clientAt,
  clientsOf,
  differingSources,
  hairpinEndpoints,
  sourceRangesOf,
} from "./clients.ts";
import { type ComparedFrontend, comparedFrontends } from "./frontends.ts";

/** Kinds of differences, as `--fail-on` names them: the new result if that changed, or else details of it. */
export const OUTCOME_CHANGES = [
  "refused",
  "dropped",
  "served",
  "not-handled",
  "varies",
  "not-understood",
  "endpoints",
  "shares",
  "source",
  "affinity",
] as const;

/** A kind of difference. */
export type OutcomeChange = (typeof OUTCOME_CHANGES)[number];

/** Clients of one frontend whose outcome differs in the same way. */
export interface OutcomeDifference {
  readonly frontend: ComparedFrontend;
  readonly clients: readonly ComparedClient[];
  readonly changes: readonly OutcomeChange[];
  readonly before: Behaviour;
  readonly after: Behaviour;
  /** As {@link portName}; absent for an address that no Service has any more. */
  readonly service?: string | undefined;
  /** The file of the Service, and its first line if known. */
  readonly place?: { readonly file: string; readonly line?: number | undefined } | undefined;
}

/** All differences between two sets of tables, ready to print. */
export interface OutcomeReport {
  /** Sorted by frontend. */
  readonly differences: readonly OutcomeDifference[];
  /** The numbers of frontends and connections that were compared. */
  readonly frontends: number;
  readonly connections: number;
  /** Names of the two sides. */
  readonly sides: readonly [before: string, after: string];
  readonly diagnostics: readonly Diagnostic[];
  /** One line each. */
  readonly notices: readonly string[];
}

/** One side of a comparison. */
export interface OutcomeSide {
  readonly tables: readonly AnyTable[];
  readonly host: Host;
}

/**
 * Compares the outcomes of connections under two sets of nft-proxy's or kube-proxy's tables: at every
 * frontend of either, from every kind of client, and from local endpoints to themselves.
 * @param nodeContext distinguishes pods, the node and the outside
 * @param podCIDRs those of the node's pods, if the options recognise pods by their interface
 */
export function compareOutcomes(
  before: OutcomeSide,
  after: OutcomeSide,
  nodeContext: NodeContext,
  podCIDRs?: Node["podCIDRs"],
): Pick<OutcomeReport, "differences" | "frontends" | "connections"> {
  const tables = [...before.tables, ...after.tables];
  const frontends = comparedFrontends(
    tables,
    new Set([...before.host.localAddresses, ...after.host.localAddresses]),
  );
  const ranges = sourceRangesOf(tables);
  const sources = differingSources(before.tables, after.tables);
  const hairpins = hairpinEndpoints(tables);
  const [old, now] = [prepareTables(before.tables), prepareTables(after.tables)];
  let connections = 0;
  const differences = frontends.flatMap((frontend) => {
    const { family, address: to, port, protocol } = frontend;
    const observe = (client: ComparedClient): Seen => {
      connections++;
      const packet = { from: client.from, to, port, protocol };
      const [first, second] = [behaviourOf(old, before.host, packet), behaviourOf(now, after.host, packet)];
      return { client, before: first, after: second };
    };
    const context = contextOf(nodeContext, family);
    if (context === undefined) return [];
    const seen = clientsOf(frontend, context, ranges, sources, podCIDRs?.[family] ?? []).map(observe);
    const selves = ownEndpoints(frontend, context, seen, hairpins).map(observe);
    return differencesOf(frontend, [...seen, ...selves]);
  });
  return { differences, frontends: frontends.length, connections };
}

/** Returns the local endpoints that the frontend may choose, as its clients. */
function ownEndpoints(
  { family, protocol }: ComparedFrontend,
  context: FamilyContext,
  seen: readonly Seen[],
  hairpins: ReadonlySet<string>,
): ComparedClient[] {
  const destinations = seen.flatMap(({ before, after }) => [...before.destinations, ...after.destinations]);
  const own = destinations.filter(({ address, port }) =>
    hairpins.has(`${family} ${address} ${port} ${protocol}`),
  );
  const addresses = new Set(own.map(({ address }) => address));
  return [...addresses].map((address) => clientAt("endpoint", "pod", address, context));
}

/** The outcomes of one client's connections to a frontend. */
interface Seen extends Pick<OutcomeDifference, "before" | "after"> {
  readonly client: ComparedClient;
}

function differencesOf(frontend: ComparedFrontend, seen: readonly Seen[]): OutcomeDifference[] {
  const merged = new Map<string, OutcomeDifference & { readonly clients: ComparedClient[] }>();
  for (const { client, before, after } of seen) {
    const changes = changesOf(before, after);
    if (changes.length === 0) continue;
    // An endpoint that reaches itself is reported only if no other client has the same difference.
    const isShown = [...merged.values()].some((one) => one.changes.join() === changes.join());
    if (client.kind === "endpoint" && isShown) continue;
    const key = JSON.stringify([before, after]);
    const known = merged.get(key);
    if (known === undefined) merged.set(key, { frontend, clients: [client], changes, before, after });
    else known.clients.push(client);
  }
  return [...merged.values()];
}

/** Returns the kinds of differences of two behaviours; none if they are the same. */
function changesOf(before: Behaviour, after: Behaviour): OutcomeChange[] {
  // Destinations are sorted.
  if (isDeepStrictEqual(before, after)) return [];
  if (before.result !== after.result) return [after.result];
  const differsIn = (...fields: Exclude<keyof Behaviour, "destinations">[]) =>
    fields.some((field) => before[field] !== after[field]);
  const [old, now] = [sharesOf(before), sharesOf(after)];
  const hasOtherEndpoints = !isDeepStrictEqual(new Set(old.keys()), new Set(now.keys()));
  const hasOtherShares = differsIn("refused", "dropped") || !isDeepStrictEqual(old, now);
  const isChanged: Partial<Record<OutcomeChange, boolean>> = {
    endpoints: hasOtherEndpoints,
    shares: !hasOtherEndpoints && hasOtherShares,
    source: isOtherSource(before, after, hasOtherEndpoints),
    affinity: differsIn("affinitySeconds", "returning"),
  };
  return OUTCOME_CHANGES.filter((change) => isChanged[change]);
}

/** The shares of connections by endpoint, rounded. */
function sharesOf({ destinations }: Behaviour): ReadonlyMap<string, string> {
  return new Map([...sharesByEndpoint(destinations)].map(([target, share]) => [target, share.toFixed(4)]));
}

/**
 * Returns true if endpoints see another source. If the endpoints differ, no new one sees a source that an old
 * one saw.
 */
function isOtherSource(before: Behaviour, after: Behaviour, hasOtherEndpoints: boolean): boolean {
  if (hasOtherEndpoints) {
    const seen = new Set(before.destinations.map(({ source }) => source));
    return !after.destinations.some(({ source }) => seen.has(source));
  }
  const sources = ({ destinations }: Behaviour): string =>
    destinations.map(({ address, port, source }) => `${address} ${port} ${source}`).join();
  return sources(before) !== sources(after) || masqueradedShare(before) !== masqueradedShare(after);
}

/** Returns the share of delivered connections that are masqueraded, 0 to 1, rounded. */
function masqueradedShare({ destinations }: Behaviour): string {
  const shareOf = (those: readonly WeightedDestination[]) =>
    those.reduce((sum, one) => sum + one.probability, 0);
  return (
    shareOf(destinations.filter(({ source }) => source === "masqueraded")) / shareOf(destinations)
  ).toFixed(4);
}

/** Returns the {@link portName} of the service port with a frontend. */
export function ownerName({ families }: RulesetState, { family, key }: ComparedFrontend): string | undefined {
  const port = families[family]?.ownerOf(key);
  return port && portName(port.service.name, port.spec.name);
}

/** A Service's port, as `--service` takes it: `namespace/name:port`, `namespace/name` for a nameless port. */
export function portName(service: string, port: string): string {
  return port === "" ? service : `${service}:${port}`;
}

/** Returns true if a difference is of one of the kinds; without kinds, if there is any difference. */
export function isOfKind({ changes }: OutcomeDifference, kinds: readonly OutcomeChange[]): boolean {
  return kinds.length === 0 || changes.some((change) => kinds.includes(change));
}

/**
 * Compares the outcomes of connections under the rules for two sets of files. Services without a cluster IP
 * get placeholder addresses on both sides, which depend on their names alone.
 * @param paths the files and directories of the new objects; the request has the old ones
 * @throws AppError as {@link loadFromFiles} does
 */
export async function compareObjectOutcomes(
  request: LoadRequest,
  paths: readonly string[],
): Promise<OutcomeReport> {
  const read = { placeholders: true, thorough: true };
  const before = await loadFromFiles(request, read);
  const after = await loadFromFiles({ ...request, paths }, read);
  const comparison = compareOutcomes(
    sideOf(before),
    sideOf(after),
    before.nodeContext,
    before.cache.node.podCIDRs,
  );
  const services = new Map<string, FromFile<Service>>([
    ...servicesByName(before.files.objects),
    ...servicesByName(after.files.objects),
  ]);
  return {
    ...comparison,
    differences: comparison.differences.map((difference) => {
      const service =
        ownerName(after.state, difference.frontend) ?? ownerName(before.state, difference.frontend);
      const from = services.get(service?.split(":")[0] ?? "");
      return { ...difference, service, place: from && placeOf(from) };
    }),
    sides: ["old objects", "new objects"],
    diagnostics: [...before.diagnostics, ...after.diagnostics],
    notices: [...before.notices, ...after.notices],
  };
}

function sideOf({ state, nodeContext }: DesiredFromFiles) {
  return { tables: Object.values(state.ruleset), host: hostOf(nodeContext, []) };
}

function placeOf({ origin, document }: FromFile<Service>): OutcomeDifference["place"] {
  return { file: origin.file, line: document?.lineOf(splitPath(origin.path)) };
}
