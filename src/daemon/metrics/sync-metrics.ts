import { AppError } from "../../base/errors.ts";
import { FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import type { CleaningReport } from "../../conntrack/stale-flow-cleaner.ts";
import { deltaSize } from "../../nft/delta.ts";
import { driftSummary } from "../../sync/drift-summary.ts";
import type { SyncFailure, SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";

import type { Metrics } from "./metrics.ts";
import type { NftFailureCause } from "./own-metrics.ts";

/** Counts and times syncs. */
export class SyncMetrics implements SyncSubscriber {
  readonly #metrics: Metrics;
  readonly #labels: readonly { readonly ip_family: string }[];

  /** @param families those that are programmed; both change in one transaction and so have the same times */
  constructor(metrics: Metrics, families: readonly Family[]) {
    this.#metrics = metrics;
    this.#labels = families.map((family) => ({ ip_family: FAMILY_NAMES[family] }));
  }

  synced(report: SyncReport): void {
    const { kubeProxy, own } = this.#metrics;
    const seconds = (report.endedAt - report.startedAt) / 1000;
    const excluded = [...report.excludedFamilies.keys()].map((family) => FAMILY_NAMES[family] as string);
    for (const labels of this.#labels.filter(({ ip_family }) => !excluded.includes(ip_family))) {
      kubeProxy.syncDuration.observe(labels, seconds);
      (report.kind === "full" ? kubeProxy.fullSyncDuration : kubeProxy.partialSyncDuration).observe(labels, seconds);
      kubeProxy.lastSynced.set(labels, report.endedAt / 1000);
    }
    for (const { family, at } of report.triggerTimes) {
      const labels = { ip_family: FAMILY_NAMES[family] };
      kubeProxy.networkProgramming.observe(labels, Math.max(0, report.endedAt - at) / 1000);
    }
    for (const at of report.receivedAt) own.changeLag.observe(Math.max(0, report.endedAt - at) / 1000);
    own.contested.set(report.state.conflicts().reduce((count, { losers }) => count + losers.length, 0));
    this.#transactions(report);
    if (report.kind === "full") this.#fullSync(report);
  }

  failed({ isFull, startedAt, endedAt, error }: SyncFailure): void {
    const { kubeProxy, own } = this.#metrics;
    if (isFull) own.fullResyncs.inc({ result: "failed" });
    own.nftFailures.inc({ cause: failureCause(error) });
    const seconds = (endedAt - startedAt) / 1000;
    for (const labels of this.#labels) {
      kubeProxy.syncFailures.inc(labels);
      kubeProxy.syncDuration.observe(labels, seconds);
      (isFull ? kubeProxy.fullSyncDuration : kubeProxy.partialSyncDuration).observe(labels, seconds);
    }
  }

  cleanUpFailed(): void {
    for (const labels of this.#labels) this.#metrics.kubeProxy.cleanupFailures.inc(labels);
  }

  #transactions({ applied, deltas }: SyncReport): void {
    const { own } = this.#metrics;
    if (applied.length > 0) own.transactionElements.observe(deltaSize(deltas).elements);
    for (const { bytes, durationMs } of applied) {
      own.transactionBytes.observe(bytes);
      own.nftDuration.observe(durationMs / 1000);
    }
  }

  #fullSync(report: SyncReport): void {
    const { own } = this.#metrics;
    const drift = driftSummary(report);
    own.fullResyncs.inc({ result: drift === undefined ? "same" : "repaired" });
    if (drift === undefined) return;
    own.fullResyncDifferences.inc(drift.differences);
    own.driftRepairs.inc({ kind: drift.kind });
  }
}

/** Why nft failed, for the label `cause`. */
function failureCause(error: unknown): NftFailureCause {
  switch (error instanceof AppError ? error.code : undefined) {
    case "NFT_REFUSED":
    case "INVALID_TRANSACTION":
      return "refused";
    case "NFT_TIMEOUT":
      return "timeout";
    case "NFT_MISSING":
      return "missing";
    default:
      return "other";
  }
}

/** Counts the stale UDP flows that were deleted. */
export function countCleaning({ kubeProxy }: Metrics, { deleted, duration }: CleaningReport): void {
  for (const family of FAMILIES) {
    const labels = { ip_family: FAMILY_NAMES[family] };
    kubeProxy.conntrackDuration.observe(labels, duration / 1000);
    kubeProxy.conntrackDeleted.inc(labels, deleted[family]);
  }
}
