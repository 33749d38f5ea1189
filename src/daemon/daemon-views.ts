import type { Family } from "../base/family.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { ConfigState } from "../config/reload.ts";
import type { DaemonPart } from "../features/seam/daemon-part.ts";
import type { CostlyTable } from "../kernel/others-sets.ts";
import type { EjectedEndpoint } from "../model/ejected-endpoint.ts";
import { rebuildTransaction, toTransaction } from "../nft/transaction.ts";
import { type DaemonProblem, type DaemonState, sentNodeContext } from "../socket/daemon-protocol.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { Readings } from "./daemon-readings.ts";
import { type HealthReport, HealthTracker, judgeHealth } from "./health/health.ts";
import { problemsOf } from "./health/problems.ts";
import type { HostSystem } from "./host-system.ts";
import type { Proxier } from "./proxier.ts";
import { type DaemonStatus, type MemoryStatus, pendingServices } from "./status/daemon-status.ts";
import { SyncHistory, SyncTimeline } from "./status/sync-history.ts";

/** The health and the syncs of a daemon, for health checks, the status page and commands. */
export interface Reports {
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly health: HealthTracker;
  /** Returns the current health. */
  readonly judge: () => HealthReport;
  readonly history: SyncHistory;
  readonly timeline: SyncTimeline;
  /** Returns the current problems: see {@link problemsOf}. */
  readonly problems: () => readonly DaemonProblem[];
}

/** Number of sync periods after which out-of-date rules make the proxy unhealthy, as in kube-proxy. */
const UNHEALTHY_AFTER_PERIODS = 2;

/**
 * Makes the reports.
 * @param options returns the current options
 * @param others returns what else has problems
 */
export function createReports(
  { system: { clock }, objects }: DaemonInput,
  options: () => ProxyOptions,
  families: readonly Family[],
  proxier: Proxier,
  others: () => { readonly config: ConfigState; readonly features: readonly DaemonPart[] },
): Reports {
  const { cache, reconciler, source, tracker } = proxier;
  const health = new HealthTracker(families, clock, proxier);
  const threshold = () => UNHEALTHY_AFTER_PERIODS * options().syncPeriodMs;
  const problems = () => {
    const { config, features } = others();
    return problemsOf({
      now: clock.now(),
      nodeName: cache.node.name,
      config,
      sources: source.states(),
      remedy: objects.remedy,
      ...health.state,
      quarantined: reconciler.quarantined,
      lostFrontends: reconciler.state.lostFrontends,
      firstConflict: () => reconciler.state.conflicts(1)[0],
      nodeLacks: tracker.nodeLacks,
      ejected: ejectedBy(features),
    });
  };
  return {
    startedAt: clock.now(),
    health,
    judge: () => judgeHealth(health.snapshot(), clock.now(), threshold()),
    history: new SyncHistory(),
    timeline: new SyncTimeline(health),
    problems,
  };
}

function ejectedBy(features: readonly DaemonPart[]): readonly EjectedEndpoint[] {
  return features.flatMap((feature) => feature.ejected?.() ?? []);
}

/** Returns the current state of the daemon, for commands. @param options the current ones */
export function daemonState(
  { version, dryRun, system: { clock, netNamespace } }: DaemonInput,
  options: ProxyOptions,
  { cache, nodeContext, reconciler, source, parts }: Proxier,
  reports: Reports,
  { features }: Readings,
): DaemonState {
  return {
    version,
    nodeName: cache.node.name,
    netNamespace: netNamespace(),
    startedAt: reports.startedAt,
    now: clock.now(),
    dryRun,
    options,
    nodeContext: sentNodeContext(nodeContext.current()),
    objects: {
      services: cache.serviceCount,
      endpointSlices: cache.sliceCount,
      serviceCIDRs: cache.serviceCIDRs().length,
      isNodeKnown: cache.isNodeKnown,
    },
    sources: source.states(),
    sync: syncState(reports),
    quarantined: [...reconciler.quarantined.keys()],
    features: Object.fromEntries(parts.map((part) => [part.name, part.shown()])),
    ejected: ejectedBy(features),
    problems: reports.problems(),
  };
}

function syncState({ history, health }: Reports): DaemonState["sync"] {
  const { syncs, failures, lastSyncedAt, verifiedAt, problem } = history.snapshot();
  return { syncs, failures, lastSyncedAt, verifiedAt, pendingSince: health.pendingSince, problem };
}

/** Returns the current state of the daemon, for the status page. */
export async function daemonStatus(
  { version, hostVersions, dryRun, system }: DaemonInput,
  proxier: Proxier,
  { startedAt, health, judge, history, timeline, problems }: Reports,
  readings: Readings,
  costlyTables: readonly CostlyTable[],
): Promise<DaemonStatus> {
  const { cache, nodeContext, reconciler, source } = proxier;
  const [connections] = await Promise.all(readings.features.flatMap((part) => part.connections?.() ?? []));
  const memory = await memoryStatus(system);
  const [entries, capacity] = [await system.conntrack.entries(), await system.conntrack.capacity()];
  const now = system.clock.now();
  const cards = await Promise.all(readings.features.map((feature) => feature.card?.(now)));
  return {
    version,
    hostVersions,
    startedAt,
    now,
    dryRun,
    cache,
    nodeContext: nodeContext.current(),
    state: reconciler.state,
    quarantined: reconciler.quarantined,
    health: judge(),
    problems: problems(),
    sources: source.states(),
    history: history.snapshot(),
    pending: { since: health.pendingSince, services: pendingServices(cache, reconciler.state) },
    timeline: timeline.minutes(now),
    fills: readings.features.flatMap((feature) => feature.fills?.() ?? []),
    cards: cards.filter((card) => card !== undefined),
    costlyTables,
    connections,
    memory,
    affinityEntries: readings.affinity.entries,
    countedClients: readings.affinity.countedClients,
    conntrack: { entries, capacity },
  };
}

async function memoryStatus({ memory }: HostSystem): Promise<MemoryStatus> {
  const [container, programs] = [await memory.container(), await memory.programs()];
  return { own: memory.own(), container, programs };
}

/**
 * Returns the desired state, the committed state and the transaction between them, for support.
 * @param now milliseconds since 1970
 */
export function stateSnapshot(
  now: number,
  { source, reconciler: { state, quarantined } }: Proxier,
  { health }: Reports,
): Record<string, unknown> {
  return {
    at: new Date(now).toISOString(),
    sources: source.states(),
    health: health.snapshot(),
    quarantined: Object.fromEntries(quarantined),
    conflicts: state.conflicts().map(({ frontend, winner, losers }) => {
      return { frontend, winner: winner.key, losers: losers.map(({ key }) => key) };
    }),
    pending: toTransaction(state.pending()),
    desired: rebuildTransaction(state.ruleset),
    committed: rebuildTransaction(state.committedRuleset()),
  };
}
