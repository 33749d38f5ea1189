import type { UnservedServices } from "../../kube/decode/ignored-service.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { rebuildTransaction, toTransaction } from "../../nft/transaction.ts";
import { DAEMON_PATHS, type DaemonAnswers, type DaemonState } from "../../sync/daemon-protocol.ts";
import type { DaemonCore } from "../core.ts";
import { jsonAnswer, type Routes } from "./http-answers.ts";

/** What the daemon socket answers from. */
export interface DaemonSocketParts extends DaemonCore {
  readonly version: string;
  readonly dryRun: boolean;
  /** The daemon's network namespace: `net:[4026531840]`. */
  readonly netNamespace: string;
  /** The newest lines of the log. */
  readonly recentLog: () => readonly string[];
  /** Asks the source for the Services that the daemon does not hold. Never rejects. */
  readonly unservedServices: () => Promise<UnservedServices>;
}

/** The routes of the daemon socket, by the protocol of sync/daemon-protocol.ts. */
export function daemonSocketRoutes(parts: DaemonSocketParts): Routes {
  const { reconciler, cache, refusals } = parts;
  const answers: { readonly [Name in keyof DaemonAnswers]: () => DaemonAnswers[Name] | Promise<DaemonAnswers[Name]> } =
    {
      state: () => daemonState(parts),
      objects: () => heldObjects(cache),
      desired: () => rebuildTransaction(reconciler.state.ruleset),
      committed: () => rebuildTransaction(reconciler.state.committedRuleset()),
      pending: () => toTransaction(reconciler.state.pending()),
      unserved: () => parts.unservedServices(),
      log: () => parts.recentLog(),
      refusals: async () => (refusals === undefined ? {} : { refusals: await refusals.seen() }),
    };
  const names = Object.keys(DAEMON_PATHS) as (keyof DaemonAnswers)[];
  return new Map(
    names.map((name) => [DAEMON_PATHS[name], async () => jsonAnswer(JSON.stringify(await answers[name]()))]),
  );
}

function daemonState(parts: DaemonSocketParts): DaemonState {
  const { cache, options, nodeContext, reconciler, source, startedAt, clock, version, dryRun, netNamespace } = parts;
  return {
    version,
    nodeName: cache.node.name,
    netNamespace,
    startedAt,
    now: clock.now(),
    dryRun,
    options: options.value,
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
