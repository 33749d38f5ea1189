import type { ProxyOptions } from "../config/options.ts";
import { FEATURES } from "../features/registry.ts";
import type { Finding } from "../features/seam/feature.ts";
import type { SeenRefusal } from "../features/seam/refusals.ts";
import type { OtherListings } from "../kernel/other-tables.ts";
import type { UnservedServices } from "../kube/decode/ignored-service.ts";
import type { ListedObjects, ResourceName, SourceState } from "../kube/source.ts";
import type { EjectedEndpoint } from "../model/ejected-endpoint.ts";
import { type EndpointSlice, type SliceEndpoint, SliceEndpoints } from "../model/endpoint-slice.ts";
import type { ServicePortKey } from "../model/ids.ts";
import type { Transaction } from "../nft/ast/json.ts";
import type { Chain, Ruleset, SetSpec, Table, TimeoutPolicy } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import type { FamilyContext, NodeContext } from "../ruleset/node-context.ts";

/**
 * The protocol between a running daemon and the other commands: HTTP GET over a Unix socket (mode 0600;
 * option `daemonSocket`), answers in JSON. Times are milliseconds since 1970.
 *
 *     GET /v1/state      DaemonState
 *     GET /v1/objects    DaemonObjects: every object that the daemon holds
 *     GET /v1/desired    Transaction that builds the desired ruleset from nothing
 *     GET /v1/committed  Transaction that builds the ruleset that the kernel was last given
 *     GET /v1/pending    Transaction between the two: the changes that the kernel does not have yet
 *     GET /v1/kernel     DaemonKernel: its tables in the kernel, listed while no sync changed them, and the
 *                        objects whose rules the kernel had then
 *     GET /v1/others     OtherListings: the tables of other software on the hooks, listed while no sync
 *                        changes anything
 *     GET /v1/unserved   UnservedServices, requested from the API server or read from the files
 *     GET /v1/log        string[]: the newest lines of the log, each with its line feed
 *     GET /v1/refusals   DaemonRefusals: the refusals that the kernel remembers, with the times of their
 *                        first packets
 *
 * An incompatible change gets another version in the path; a daemon answers 404 for versions that it does not
 * know.
 */
export interface DaemonAnswers {
  readonly state: DaemonState;
  readonly objects: DaemonObjects;
  readonly desired: Transaction;
  readonly committed: Transaction;
  readonly pending: Transaction;
  readonly kernel: DaemonKernel;
  readonly others: OtherListings;
  readonly unserved: UnservedServices;
  readonly log: readonly string[];
  readonly refusals: DaemonRefusals;
}

/** Returns the path of an answer. */
export function daemonPath(name: keyof DaemonAnswers): string {
  return `/v1/${name}`;
}

/** A daemon's tables in the kernel: those that it sent, and the differences that a comparison found. */
export interface DaemonKernel {
  /**
   * When the kernel was listed. Later changes of the daemon are included, those of other programs are not.
   */
  readonly listedAt: number;
  /** The time of the objects and of the tables. */
  readonly at: number;
  readonly objects: DaemonObjects;
  /** The rules of the objects, all of which the kernel was given. */
  readonly tables: readonly DaemonTable[];
  /** Absent if the tables in the kernel cannot be listed or parsed. */
  readonly differences?: readonly TableDelta[] | undefined;
}

/** A table as JSON. */
export interface DaemonTable extends Pick<Table, "family" | "name" | "flowtable"> {
  readonly timeouts?: readonly TimeoutPolicy[];
  readonly chains: readonly Chain[];
  readonly sets: readonly {
    readonly spec: SetSpec;
    /** Pairs of key and value. */
    readonly elements: Iterable<readonly [string, string]>;
  }[];
}

/** The tables of a ruleset as they are now. `jsonPieces` writes them, {@link rulesetOf} reads them. */
export function daemonTables(ruleset: Ruleset): DaemonTable[] {
  return Object.values(ruleset).map(({ timeouts, chains, sets, ...table }) => ({
    ...table,
    ...(timeouts !== undefined && { timeouts: [...timeouts.values()] }),
    chains: [...chains.values()],
    sets: Array.from(sets.values(), ({ spec, elements }) => ({ spec, elements: snapshot(elements) })),
  }));
}

/** Copies keys and values by themselves: 100,000 pairs or a copied map take 20 times as long. */
function snapshot(elements: ReadonlyMap<string, string>): Iterable<readonly [string, string]> {
  const [keys, values] = [[...elements.keys()], [...elements.values()]];
  return {
    *[Symbol.iterator]() {
      for (const [index, key] of keys.entries()) yield [key, values[index] ?? ""];
    },
  };
}

/** The ruleset of {@link daemonTables}. */
export function rulesetOf(tables: readonly DaemonTable[]): Ruleset {
  const rulesets = tables.map(({ timeouts, chains, sets, ...table }): [string, Table] => [
    table.family,
    {
      ...table,
      ...(timeouts !== undefined && { timeouts: new Map(timeouts.map((policy) => [policy.name, policy])) }),
      chains: new Map(chains.map((chain) => [chain.name, chain])),
      sets: new Map(sets.map(({ spec, elements }) => [spec.name, { spec, elements: new Map(elements) }])),
    },
  ]);
  return Object.fromEntries(rulesets);
}

/** The refusals that a daemon knows of. */
export interface DaemonRefusals {
  /** Absent if the daemon does not watch them: they are not recorded, or it is a dry run. */
  readonly refusals?: readonly SeenRefusal[] | undefined;
}

/**
 * Everything that a daemon holds; model types as JSON. Its `nodes` are our Node, or none while it is unknown.
 */
export interface DaemonObjects extends Omit<ListedObjects, "endpointSlices"> {
  readonly endpointSlices: readonly WrittenSlice[];
}

/** An EndpointSlice, whose endpoints `jsonPieces` writes as a list. */
interface WrittenSlice extends Omit<EndpointSlice, "endpoints"> {
  readonly endpoints: Iterable<SliceEndpoint>;
}

/** The objects of an answer. */
export function objectsOf({ endpointSlices, ...objects }: DaemonObjects): ListedObjects {
  const slices = endpointSlices.map((slice) => {
    return { ...slice, endpoints: new SliceEndpoints([...slice.endpoints]) };
  });
  return { ...objects, endpointSlices: slices };
}

/** The state of a daemon at one moment. */
export interface DaemonState {
  /** The product's version. */
  readonly version: string;
  readonly nodeName: string;
  /**
   * The network namespace that the daemon programs, as `/proc/self/ns/net` names it: `net:[4026531840]`. A
   * command in another one looks at another kernel state and must not compare it with this daemon.
   */
  readonly netNamespace: string;
  readonly startedAt: number;
  readonly now: number;
  /** Whether it applies nothing. */
  readonly dryRun: boolean;
  readonly options: ProxyOptions;
  readonly nodeContext: SentNodeContext;
  readonly objects: DaemonObjectCounts;
  readonly sources: Readonly<Record<ResourceName, SourceState>>;
  readonly sync: DaemonSyncState;
  /** Service ports without rules, in quarantine. */
  readonly quarantined: readonly ServicePortKey[];
  /** What enabled features show, by name: see `StatePart.shown`. */
  readonly features: Readonly<Record<string, unknown>>;
  /** Endpoints that get no new connections because they do not answer this node. */
  readonly ejected: readonly EjectedEndpoint[];
  /** What is wrong, as far as the daemon knows. */
  readonly problems: readonly DaemonProblem[];
}

/** Something that keeps a daemon from doing its work, or will. */
export interface DaemonProblem extends Omit<Finding, "level"> {
  readonly kind: ProblemKind;
  /** A fault keeps Services from working; a warning may do so, now or later. */
  readonly level: "warning" | "fault";
}

/** The kinds of problems, which are stable for scripts. */
export type ProblemKind =
  /** It cannot follow the API server, or read its files. */
  | "following"
  /** The rules are out of date, or there are none yet. */
  | "programming"
  /** The configuration changed, and cannot be used. */
  | "configuration"
  /** Changed settings wait for a restart. */
  | "restart"
  | "quarantine"
  | "conflict"
  /** Our Node lost fields. */
  | "node"
  | "ejected-endpoints";

/** Numbers of objects that a daemon holds. */
export interface DaemonObjectCounts {
  readonly services: number;
  readonly endpointSlices: number;
  readonly serviceCIDRs: number;
  /** Whether our Node object has been seen. */
  readonly isNodeKnown: boolean;
}

/** Whether the kernel is up to date with the objects. */
export interface DaemonSyncState {
  readonly syncs: number;
  readonly failures: number;
  /** When the kernel was last brought up to date; absent before the first sync. */
  readonly lastSyncedAt?: number | undefined;
  /** When the kernel's tables were last compared with the desired state; absent before. */
  readonly verifiedAt?: number | undefined;
  /** Since when the rules have been out of date; absent if they are up to date. */
  readonly pendingSince?: number | undefined;
  /** Why the last sync failed; absent after a success. */
  readonly problem?: string | undefined;
}

/** A node context with the names of features. */
export type SentNodeContext = readonly (Omit<FamilyContext, "features"> & {
  readonly features: readonly string[];
})[];

/** A node context as the daemon sends it. */
export function sentNodeContext(nodeContext: NodeContext): SentNodeContext {
  return nodeContext.map((context) => ({ ...context, features: context.features.map(({ name }) => name) }));
}

/** The node context that a daemon has sent. */
export function receivedNodeContext(sent: SentNodeContext): NodeContext {
  return sent.map(({ features, ...context }) => ({
    ...context,
    features: FEATURES.flatMap(({ name, ruleset }) => (features.includes(name) ? (ruleset ?? []) : [])),
  }));
}
