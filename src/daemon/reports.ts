import type { ProxyOptions } from "../config/options.ts";
import type { ConfigState } from "../config/reload.ts";
import type { CostlyTable } from "../kernel/others-sets.ts";
import type { EjectedEndpoint } from "../model/ejected-endpoint.ts";
import { rebuildTransaction, toTransaction } from "../nft/transaction.ts";
import { type DaemonProblem, type DaemonState, sentNodeContext } from "../socket/daemon-protocol.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { Readings } from "./daemon-readings.ts";
import { type HealthReport, healthTracker, judgeHealth, UNHEALTHY_AFTER_PERIODS } from "./health/health.ts";
import { problemsOf } from "./health/problems.ts";
import { SyncHistory, syncTimeline } from "./health/sync-history.ts";
import type { Proxier } from "./proxier.ts";
import { type DaemonStatus, pendingServices } from "./status/daemon-status.ts";

/**
 * Creates the reports of a daemon about itself: for health checks, the status page, commands and support.
 * @param options returns the current options
 */
export function createReports(
  input: DaemonInput,
  options: () => ProxyOptions,
  proxier: Proxier,
  { affinity, features }: Readings,
) {
  const { version, hostVersions, dryRun, objects, system } = input;
  const { clock, conntrack, memory } = system;
  const { cache, nodeContext, reconciler, source, stateParts, tracker } = proxier;
  const startedAt = clock.now();
  const history = new SyncHistory();
  const health = healthTracker(nodeContext.host.families, clock, { ...proxier, history });
  const timeline = syncTimeline(health);
  /** What came of the last reading of the configuration. */
  let config: ConfigState = { problem: undefined, needRestart: [] };

  /** Returns the current health. */
  const judge = (): HealthReport =>
    judgeHealth(health.snapshot(), clock.now(), UNHEALTHY_AFTER_PERIODS * options().syncPeriodMs);

  const ejected = (): readonly EjectedEndpoint[] => features.flatMap((feature) => feature.ejected?.() ?? []);

  /** Returns the current problems: see {@link problemsOf}. */
  const problems = (): readonly DaemonProblem[] =>
    problemsOf({
      now: clock.now(),
      config,
      sources: source.states(),
      remedy: objects.remedy,
      ...health.snapshot(),
      quarantined: reconciler.quarantined,
      lostFrontends: reconciler.state.lostFrontends,
      firstConflict: () => reconciler.state.conflicts(1)[0],
      nodeLacks: tracker.nodeLacks,
      ejected: ejected(),
    });

  /** Returns the current state of the daemon, for commands. */
  const state = (): DaemonState => {
    const { syncs, failures, lastSyncedAt, verifiedAt, problem } = history;
    const { pendingSince } = health;
    return {
      version,
      nodeName: cache.node.name,
      netNamespace: system.netNamespace(),
      startedAt,
      now: clock.now(),
      dryRun,
      options: options(),
      nodeContext: sentNodeContext(nodeContext.current()),
      objects: {
        services: cache.serviceCount,
        endpointSlices: cache.sliceCount,
        serviceCIDRs: cache.serviceCIDRs().length,
        isNodeKnown: cache.isNodeKnown,
      },
      sources: source.states(),
      sync: { syncs, failures, lastSyncedAt, verifiedAt, pendingSince, problem },
      quarantined: [...reconciler.quarantined.keys()],
      features: Object.fromEntries(stateParts.map((part) => [part.name, part.shown()])),
      ejected: ejected(),
      problems: problems(),
    };
  };

  /** Returns the current state of the daemon, for the status page. */
  const status = async (costlyTables: readonly CostlyTable[]): Promise<DaemonStatus> => {
    const [connections] = await Promise.all(features.flatMap((part) => part.connections?.() ?? []));
    const [container, programs] = [await memory.container(), await memory.programs()];
    const [entries, capacity] = [await conntrack.entries(), await conntrack.capacity()];
    const now = clock.now();
    const cards = await Promise.all(features.map((feature) => feature.card?.(now)));
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
      history,
      pending: { since: health.pendingSince, services: pendingServices(cache, reconciler.state) },
      timeline: timeline.minutes(now),
      fills: features.flatMap((feature) => feature.fills?.() ?? []),
      cards: cards.filter((card) => card !== undefined),
      costlyTables,
      connections,
      memory: { own: memory.own(), container, programs },
      affinityEntries: { ...affinity.entries },
      countedClients: affinity.countedClients,
      conntrack: { entries, capacity },
    };
  };

  /** Returns the state for support, with the desired and committed rules and the transaction between them. */
  const snapshot = (): Record<string, unknown> => ({
    at: new Date(clock.now()).toISOString(),
    sources: source.states(),
    health: health.snapshot(),
    quarantined: Object.fromEntries(reconciler.quarantined),
    conflicts: reconciler.state.conflicts().map(({ frontend, winner, losers }) => {
      return { frontend, winner: winner.key, losers: losers.map(({ key }) => key) };
    }),
    pending: toTransaction(reconciler.state.pending()),
    desired: rebuildTransaction(reconciler.state.ruleset),
    committed: rebuildTransaction(reconciler.state.committedRuleset()),
  });

  return {
    /** Milliseconds since 1970. */
    startedAt,
    history,
    health,
    timeline,
    config: () => config,
    /** Records whether a changed configuration can be used, and which settings wait for a restart. */
    configRead: (read: ConfigState) => {
      config = read;
    },
    judge,
    problems,
    quarantinedCount: () => reconciler.quarantined.size,
    state,
    status,
    snapshot,
  };
}
