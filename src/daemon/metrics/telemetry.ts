import { AppError, messageOf } from "../../base/errors.ts";
import { FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import type { CleaningReport } from "../../conntrack/stale-flow-cleaner.ts";
import { type ServicePortKey, serviceOf } from "../../model/ids.ts";
import { deltaSize, type TableDelta } from "../../nft/delta.ts";
import type { Conflict, RulesetState } from "../../ruleset/ruleset-state.ts";
import type { ChangeTracker, EndpointTrigger } from "../../sync/change-tracker.ts";
import type { SyncReport } from "../../sync/reconciler.ts";
import type { EventChannel } from "../events/event-channel.ts";
import { contestedEvent, driftRepairedEvent, failedSyncEvent, quarantineEvent } from "../events/events.ts";
import { SyncHistory } from "../status/sync-history.ts";
import type { Metrics } from "./metrics.ts";

/** Whom a telemetry tells. */
export interface TelemetryParts {
  readonly metrics: Metrics;
  readonly events: EventChannel;
  readonly logger: Logger;
  readonly families: readonly Family[];
}

/** A sync that succeeded, and when. Milliseconds. */
export interface SyncTimes {
  readonly startedAt: number;
  readonly endedAt: number;
}

/** Turns what syncs report into metrics, log lines, Kubernetes Events, and a history to look at. */
export class Telemetry {
  readonly history = new SyncHistory();
  readonly #parts: TelemetryParts;
  #reportedConflicts = "";
  #excluded: ReadonlySet<ServicePortKey> = new Set();

  constructor(parts: TelemetryParts) {
    this.#parts = parts;
  }

  /** A sync was asked for. */
  queued(at: number): void {
    for (const family of this.#parts.families) {
      this.#parts.metrics.kubeProxy.lastQueued.set({ ip_family: FAMILY_NAMES[family] }, at / 1000);
    }
  }

  /** A sync succeeded. */
  synced(report: SyncReport, { startedAt, endedAt }: SyncTimes, triggers: readonly EndpointTrigger[]): void {
    const { kubeProxy } = this.#parts.metrics;
    const seconds = (endedAt - startedAt) / 1000;
    for (const family of this.#parts.families) {
      const labels = { ip_family: FAMILY_NAMES[family] };
      kubeProxy.syncDuration.observe(labels, seconds);
      (report.kind === "full" ? kubeProxy.fullSyncDuration : kubeProxy.partialSyncDuration).observe(labels, seconds);
      kubeProxy.lastSynced.set(labels, endedAt / 1000);
    }
    for (const { family, at } of triggers) {
      kubeProxy.networkProgramming.observe({ ip_family: FAMILY_NAMES[family] }, Math.max(0, endedAt - at) / 1000);
    }
    this.#transactions(report);
    this.history.synced();
    if (report.kind === "full") this.#fullSync(report, { startedAt, endedAt });
    else this.#parts.logger.debug({ ...deltaSize(report.deltas), seconds }, "synced");
    for (const key of report.refused) this.#quarantined(key);
  }

  /** A sync failed, a full one or not; it will be tried again. */
  failed(error: unknown, isFull: boolean): void {
    const { metrics, logger, events } = this.#parts;
    this.history.failed();
    if (isFull) metrics.own.fullResyncs.inc({ result: "failed" });
    for (const family of this.#parts.families) metrics.kubeProxy.syncFailures.inc({ ip_family: FAMILY_NAMES[family] });
    const evidence = error instanceof AppError ? { ...error.evidence, hint: error.hint } : {};
    logger.error({ error: messageOf(error), ...evidence }, "sync failed, will try again");
    events.recorder.record(failedSyncEvent(events.node(), messageOf(error)));
  }

  /** Chains out of use could not be deleted. They harm nobody. */
  tidyFailed(error: unknown): void {
    const { metrics, logger } = this.#parts;
    for (const family of this.#parts.families)
      metrics.kubeProxy.cleanupFailures.inc({ ip_family: FAMILY_NAMES[family] });
    logger.info({ error: messageOf(error) }, "chains out of use could not be deleted");
  }

  /** Tells of contested frontends, when they changed since the last time. */
  conflicts(conflicts: readonly Conflict[]): void {
    const { metrics, logger, events } = this.#parts;
    metrics.own.contested.set(conflicts.reduce((count, { losers }) => count + losers.length, 0));
    const now = JSON.stringify(conflicts.map(({ frontend, winner, losers }) => [frontend, winner.key, losers.length]));
    if (now === this.#reportedConflicts) return;
    this.#reportedConflicts = now;
    for (const { frontend, winner, losers } of conflicts) {
      for (const loser of losers) {
        logger.warn({ frontend, winner: winner.name, loser: loser.name }, "contested: the older Service has it");
        events.recorder.record(contestedEvent(events.service(loser.service.name), loser.name, winner.name));
      }
    }
  }

  /** Which service ports are left out now, as the kernel refuses them; tells of those that no longer are. */
  excluded(keys: ReadonlySet<ServicePortKey>): void {
    for (const key of this.#excluded) {
      if (!keys.has(key)) this.#parts.logger.info({ servicePort: key }, "a service port is no longer left out");
    }
    this.#excluded = new Set(keys);
  }

  /** Sets the gauges that are read from the state; for scrapes. */
  gauges(state: RulesetState, quarantined: number): void {
    const { own, kubeProxy } = this.#parts.metrics;
    own.quarantined.set(quarantined);
    for (const family of FAMILIES) {
      const familyState = state.families[family];
      if (familyState === undefined) continue;
      for (const { spec, elements } of familyState.table.sets.values()) {
        if (spec.dynamic) own.mapCapacity.set({ family, map: spec.name }, spec.size ?? 0);
        else own.mapElements.set({ family, map: spec.name }, elements.size);
      }
      const missing = { internal: 0, external: 0 };
      for (const { noLocalEndpoints } of familyState.allServicePortRules()) {
        for (const policy of noLocalEndpoints) missing[policy]++;
      }
      for (const policy of ["internal", "external"] as const) {
        kubeProxy.noLocalEndpoints.set({ ip_family: FAMILY_NAMES[family], traffic_policy: policy }, missing[policy]);
      }
    }
  }

  /** kube-proxy counts changes as they come; ours are counted by the feed and copied when scraped. */
  changes({ services, endpoints }: ChangeTracker): void {
    const { kubeProxy } = this.#parts.metrics;
    for (const [counter, pending, { total, unsynced }] of [
      [kubeProxy.serviceChanges, kubeProxy.serviceChangesPending, services],
      [kubeProxy.endpointChanges, kubeProxy.endpointChangesPending, endpoints],
    ] as const) {
      counter.reset();
      counter.inc(total);
      pending.set(unsynced);
    }
  }

  /** Stale UDP flows were cleared. */
  cleaned({ deleted, duration }: CleaningReport): void {
    const { kubeProxy } = this.#parts.metrics;
    for (const family of FAMILIES) {
      const labels = { ip_family: FAMILY_NAMES[family] };
      kubeProxy.conntrackDuration.observe(labels, duration / 1000);
      kubeProxy.conntrackDeleted.inc(labels, deleted[family]);
    }
  }

  #transactions({ applied, deltas }: SyncReport): void {
    const { own } = this.#parts.metrics;
    if (applied.length > 0) own.transactionElements.observe(deltaSize(deltas).elements);
    for (const { bytes, durationMs } of applied) {
      own.transactionBytes.observe(bytes);
      own.nftDuration.observe({ operation: "apply" }, durationMs / 1000);
    }
  }

  #fullSync({ reason, deltas, drift, applied, unreadable }: SyncReport, { startedAt, endedAt }: SyncTimes): void {
    const { metrics, logger, events } = this.#parts;
    const seconds = (endedAt - startedAt) / 1000;
    const differs = drift.length > 0 || (unreadable !== undefined && reason !== "start");
    const found = driftText(drift, unreadable);
    const repaired = differs ? found : undefined;
    this.history.fullySynced({ at: endedAt, reason, durationMs: endedAt - startedAt, repaired });
    metrics.own.fullResyncs.inc({ result: differs ? "repaired" : "same" });
    if (!differs) {
      logger.info({ reason, seconds, sent: applied.length, ...deltaSize(deltas), unreadable }, "full sync");
      return;
    }
    const { chains, sets, elements } = deltaSize(drift);
    metrics.own.fullResyncDifferences.inc(chains + sets + elements);
    metrics.own.driftRepairs.inc({ kind: drift.some(({ mode }) => mode !== "change") ? "table" : "element" });
    logger.warn({ reason, seconds, found }, "the rules were changed by someone else, and have been repaired");
    events.recorder.record(driftRepairedEvent(events.node(), found));
  }

  #quarantined(key: SyncReport["refused"][number]): void {
    const { logger, events } = this.#parts;
    const servicePort = key.slice(key.indexOf(" ") + 1);
    logger.error({ servicePort: key }, "the kernel refuses a service port, which is left out");
    const subject = events.service(serviceOf(key));
    events.recorder.record(quarantineEvent(subject, servicePort, events.node().name, "the kernel refuses its rules"));
  }
}

function driftText(drift: readonly TableDelta[], unreadable: string | undefined): string {
  if (unreadable !== undefined) return `our tables could not be read: ${unreadable}`;
  return drift
    .map((delta) => {
      if (delta.mode !== "change") return `table ${delta.family} ${delta.table} was gone or foreign`;
      const { chains, sets, elements } = deltaSize([delta]);
      return `table ${delta.family} ${delta.table}: ${chains} chains, ${sets} sets, ${elements} elements differed`;
    })
    .join("; ");
}
