import type { ProxyOptions } from "../config/options.ts";
import type { ConfigState } from "../config/reload.ts";
import type { CostlyTable } from "../kernel/others-sets.ts";
import type { EjectedEndpoint } from "../model/ejected-endpoint.ts";
import { rebuildTransaction, toTransaction } from "../nft/transaction.ts";
import { type DaemonProblem, type DaemonState, sentNodeContext } from "../socket/daemon-protocol.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { Readings } from "./daemon-readings.ts";
import { type HealthReport, HealthTracker, judgeHealth, UNHEALTHY_AFTER_PERIODS } from "./health/health.ts";
import { problemsOf } from "./health/problems.ts";
import { SyncHistory, SyncTimeline } from "./health/sync-history.ts";
import type { Proxier } from "./proxier.ts";
import { type DaemonStatus, pendingServices } from "./status/daemon-status.ts";

/** What a daemon tells about itself: to health checks, the status page, commands and support. */
export class Reports {
  readonly #input: DaemonInput;
  readonly #options: () => ProxyOptions;
  readonly #proxier: Proxier;
  readonly #readings: Readings;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly health: HealthTracker;
  readonly history = new SyncHistory();
  readonly timeline: SyncTimeline;
  /** What came of the last reading of the configuration. */
  config: ConfigState = { problem: undefined, needRestart: [] };

  /** @param options returns the current options */
  constructor(input: DaemonInput, options: () => ProxyOptions, proxier: Proxier, readings: Readings) {
    const { clock } = input.system;
    this.#input = input;
    this.#options = options;
    this.#proxier = proxier;
    this.#readings = readings;
    this.startedAt = clock.now();
    const { families } = proxier.nodeContext.host;
    this.health = new HealthTracker(families, clock, { ...proxier, history: this.history });
    this.timeline = new SyncTimeline(this.health);
  }

  /** Returns the current health. */
  judge(): HealthReport {
    const threshold = UNHEALTHY_AFTER_PERIODS * this.#options().syncPeriodMs;
    return judgeHealth(this.health.snapshot(), this.#input.system.clock.now(), threshold);
  }

  /** Returns the current problems: see {@link problemsOf}. */
  problems(): readonly DaemonProblem[] {
    const { reconciler, source, tracker } = this.#proxier;
    return problemsOf({
      now: this.#input.system.clock.now(),
      config: this.config,
      sources: source.states(),
      remedy: this.#input.objects.remedy,
      ...this.health.snapshot(),
      quarantined: reconciler.quarantined,
      lostFrontends: reconciler.state.lostFrontends,
      firstConflict: () => reconciler.state.conflicts(1)[0],
      nodeLacks: tracker.nodeLacks,
      ejected: this.#ejected,
    });
  }

  /** Number of service ports in quarantine. */
  get quarantined(): number {
    return this.#proxier.reconciler.quarantined.size;
  }

  /** Returns the current state of the daemon, for commands. */
  state(): DaemonState {
    const { version, dryRun, system } = this.#input;
    const { cache, nodeContext, reconciler, source, stateParts } = this.#proxier;
    const { syncs, failures, lastSyncedAt, verifiedAt, problem } = this.history;
    const { pendingSince } = this.health;
    return {
      version,
      nodeName: cache.node.name,
      netNamespace: system.netNamespace(),
      startedAt: this.startedAt,
      now: system.clock.now(),
      dryRun,
      options: this.#options(),
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
      ejected: this.#ejected,
      problems: this.problems(),
    };
  }

  /** Returns the current state of the daemon, for the status page. */
  async status(costlyTables: readonly CostlyTable[]): Promise<DaemonStatus> {
    const { hostVersions, system } = this.#input;
    const { memory, conntrack } = system;
    const { cache, nodeContext, reconciler } = this.#proxier;
    const { affinity, features } = this.#readings;
    const [connections] = await Promise.all(features.flatMap((part) => part.connections?.() ?? []));
    const [container, programs] = [await memory.container(), await memory.programs()];
    const [entries, capacity] = [await conntrack.entries(), await conntrack.capacity()];
    const state = this.state();
    const { now } = state;
    const cards = await Promise.all(features.map((feature) => feature.card?.(now)));
    return {
      ...state,
      hostVersions,
      cache,
      nodeContext: nodeContext.current(),
      state: reconciler.state,
      quarantined: reconciler.quarantined,
      health: this.judge(),
      problems: this.problems(),
      history: this.history,
      pending: { since: this.health.pendingSince, services: pendingServices(cache, reconciler.state) },
      timeline: this.timeline.minutes(now),
      fills: features.flatMap((feature) => feature.fills?.() ?? []),
      cards: cards.filter((card) => card !== undefined),
      costlyTables,
      connections,
      memory: { own: memory.own(), container, programs },
      affinityEntries: affinity.entries,
      countedClients: affinity.countedClients,
      conntrack: { entries, capacity },
    };
  }

  /** Returns the desired state, the committed state and the transaction between them, for support. */
  snapshot(): Record<string, unknown> {
    const { source, reconciler } = this.#proxier;
    const { state, quarantined } = reconciler;
    return {
      at: new Date(this.#input.system.clock.now()).toISOString(),
      sources: source.states(),
      health: this.health.snapshot(),
      quarantined: Object.fromEntries(quarantined),
      conflicts: state.conflicts().map(({ frontend, winner, losers }) => {
        return { frontend, winner: winner.key, losers: losers.map(({ key }) => key) };
      }),
      pending: toTransaction(state.pending()),
      desired: rebuildTransaction(state.ruleset),
      committed: rebuildTransaction(state.committedRuleset()),
    };
  }

  get #ejected(): readonly EjectedEndpoint[] {
    return this.#readings.features.flatMap((feature) => feature.ejected?.() ?? []);
  }
}
