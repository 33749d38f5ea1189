import { mkdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { dirname } from "node:path";
import { type Clock, wallTime } from "../base/clock.ts";
import { AppError, messageOf } from "../base/errors.ts";
import { firstOf } from "../base/signals.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { VanishedEndpoints } from "../conntrack/vanished-endpoints.ts";
import type { Nft } from "../kernel/nft.ts";
import { listTableOf } from "../kernel/nft-listings.ts";
import { listOtherTables } from "../kernel/other-tables.ts";
import type { UnservedServices } from "../kube/decode/ignored-service.ts";
import type { ObjectSource } from "../kube/source.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { rebuildTransaction, toTransaction } from "../nft/transaction.ts";
import { DAEMON_PATHS, type DaemonAnswers, type DaemonState, daemonTables } from "../sync/daemon-protocol.ts";
import type { NodeContextReader } from "../sync/node-context.ts";
import type { Reconciler } from "../sync/reconciler.ts";
import type { SyncLoop } from "../sync/sync-loop.ts";
import type { Verifier } from "../sync/verifier.ts";
import type { HealthTracker } from "./health/health.ts";
import { jsonAnswer, type Routes } from "./http/http-server.ts";
import type { RefusalPoller } from "./readings/refusal-poller.ts";
import type { SyncHistory } from "./status/sync-history.ts";

/** What the daemon socket answers from. */
export interface DaemonSocketParts {
  readonly version: string;
  /** The daemon's network namespace: `net:[4026531840]`. */
  readonly netNamespace: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly clock: Clock;
  readonly dryRun: boolean;
  /** Those in force. */
  readonly options: () => ProxyOptions;
  readonly cache: ObjectCache;
  readonly nodeContext: NodeContextReader;
  readonly reconciler: Reconciler;
  readonly loop: Pick<SyncLoop, "atOneMoment" | "between">;
  readonly verifier: Pick<Verifier, "find">;
  readonly nft: Nft;
  readonly source: ObjectSource;
  readonly health: HealthTracker;
  readonly history: SyncHistory;
  /** Undefined where connections to vanished endpoints are not reset. */
  readonly vanished: VanishedEndpoints | undefined;
  /** Undefined where refusals are not recorded. */
  readonly refusals: RefusalPoller | undefined;
  /** The newest lines of the log. */
  readonly recentLog: () => readonly string[];
  /** Asks the source for the Services that the daemon does not hold. Never rejects. */
  readonly unservedServices: () => Promise<UnservedServices>;
}

/** The routes of the daemon socket, by the protocol of sync/daemon-protocol.ts. */
export function daemonSocketRoutes(parts: DaemonSocketParts): Routes {
  const { reconciler, cache, refusals } = parts;
  const answers: { readonly [Name in keyof DaemonAnswers]: Answer<Name> } = {
    state: () => daemonState(parts),
    objects: () => heldObjects(cache),
    desired: () => rebuildTransaction(reconciler.state.ruleset),
    committed: () => rebuildTransaction(reconciler.state.committedRuleset()),
    pending: () => toTransaction(reconciler.state.pending()),
    kernel: (gone) => daemonKernel(parts, gone),
    others: (gone) => listOtherTables(parts.nft, gone, betweenSyncs(parts.loop)),
    unserved: () => parts.unservedServices(),
    log: () => parts.recentLog(),
    refusals: async () => (refusals === undefined ? {} : { refusals: await refusals.seen() }),
  };
  const names = Object.keys(DAEMON_PATHS) as (keyof DaemonAnswers)[];
  return new Map(
    names.map((name) => [
      DAEMON_PATHS[name],
      async (_, gone) => jsonAnswer(JSON.stringify(await answers[name](gone))),
    ]),
  );
}

type Answer<Name extends keyof DaemonAnswers> = (
  gone: AbortSignal | undefined,
) => DaemonAnswers[Name] | Promise<DaemonAnswers[Name]>;

/** The longest time for which changes wait while one table of other software is listed, milliseconds. */
const MOST_WAITING = 2000;

/**
 * Lists tables of other software, each while no sync is under way: nft begins a listing anew whenever rules change meanwhile, and
 * beside 20 changes a second that of 5,000 sets, which takes 0.45 s, does not end.
 */
function betweenSyncs(loop: Pick<SyncLoop, "between">): typeof listTableOf {
  return (nft, table, as, signal) =>
    loop.between(() => listTableOf(nft, table, as, firstOf(AbortSignal.timeout(MOST_WAITING), signal)));
}

async function daemonKernel(
  { verifier, loop, cache, clock, reconciler }: DaemonSocketParts,
  gone: AbortSignal | undefined,
): Promise<DaemonAnswers["kernel"]> {
  const { at, comparison } = await verifier.find(gone);
  const listedAt = wallTime(clock, at);
  // Before the first sync, there is nothing to compare with.
  const isKnown = comparison.kind === "compared" && Object.keys(reconciler.state.ruleset).length > 0;
  const differences = isKnown ? { differences: comparison.differences } : {};
  return await loop.atOneMoment(
    () => heldObjects(cache),
    (objects, committed) => ({
      listedAt,
      at: clock.now(),
      objects,
      tables: daemonTables(committed),
      ...differences,
    }),
  );
}

function daemonState(parts: DaemonSocketParts): DaemonState {
  const { cache, options, nodeContext, reconciler, source, startedAt, clock, version, dryRun, netNamespace } =
    parts;
  return {
    version,
    nodeName: cache.node.name,
    netNamespace,
    startedAt,
    now: clock.now(),
    dryRun,
    options: options(),
    nodeContext: nodeContext.current(),
    objects: {
      services: cache.serviceCount,
      endpointSlices: cache.sliceCount,
      serviceCIDRs: cache.serviceCIDRs().length,
      isNodeKnown: cache.isNodeKnown,
    },
    sources: source.states(),
    sync: syncState(parts),
    quarantined: [...reconciler.quarantined.keys()],
    ...(parts.vanished === undefined ? {} : { vanished: parts.vanished.held() }),
  };
}

function syncState({ history, health }: DaemonSocketParts): DaemonState["sync"] {
  const { syncs, failures, lastSyncedAt, verifiedAt, problem } = history.snapshot();
  const { pendingSince } = health;
  return {
    syncs,
    failures,
    ...(lastSyncedAt === undefined ? {} : { lastSyncedAt }),
    ...(verifiedAt === undefined ? {} : { verifiedAt }),
    ...(pendingSince === undefined ? {} : { pendingSince }),
    ...(problem === undefined ? {} : { problem }),
  };
}

function heldObjects(cache: ObjectCache): DaemonAnswers["objects"] {
  return {
    services: cache.serviceNames().flatMap((name) => cache.service(name) ?? []),
    endpointSlices: cache.allSlices(),
    nodes: cache.isNodeKnown ? [cache.node] : [],
    serviceCIDRs: cache.serviceCIDRs(),
  };
}

/**
 * Makes room for a Unix socket: creates its directory, for its owner alone, and removes the socket of a process that
 * ended without removing it.
 * @throws AppError HOST when a process listens on it, or the file system does not allow it
 */
export async function prepareSocket(path: string): Promise<void> {
  if (await isServed(path)) {
    throw new AppError("HOST", `another process listens on ${path}`, {
      hint: "another nft-proxy runs on this host: two of them in one network namespace undo each other's rules; stop one, or give one in another network namespace another --daemon-socket",
    });
  }
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await rm(path, { force: true });
  } catch (error) {
    throw new AppError("HOST", `cannot prepare ${path}: ${messageOf(error)}`, { cause: error });
  }
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
