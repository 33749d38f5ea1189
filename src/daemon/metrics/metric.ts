import { FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import type { Labels, Sample } from "../../base/sample.ts";
import type { ConfigState } from "../../config/reload.ts";
import type { CleaningReport } from "../../conntrack/stale-flow-cleaner.ts";
import type { FeatureMetric } from "../../features/seam/daemon-part.ts";
import type { MemoryUsage } from "../../kernel/memory-usage.ts";
import type { HostVersions } from "../../kernel/versions.ts";
import type { ApiRequestOutcome } from "../../kube/client/client.ts";
import type { ObjectSource } from "../../kube/source.ts";
import type { BoundedFrequencyRunner } from "../../sync/bounded-frequency-runner.ts";
import type { ChangeTracker } from "../../sync/change-tracker.ts";
import type { Reconciler } from "../../sync/reconciler.ts";
import type { SyncFailure, SyncReport } from "../../sync/sync-report.ts";
import type { LoopbackProxy } from "../loopback/loopback-proxy.ts";
import type { AffinityPoller } from "../readings/affinity-poller.ts";

/** Events in the daemon that metrics count or time. */
export interface Occurrences {
  /** The daemon was made, of this version of nft-proxy. */
  readonly started: HostVersions & { readonly version: string };
  /**
   * A sync, and the programmed families, which have the same times because they change in one transaction.
   */
  readonly synced: { readonly report: SyncReport; readonly families: readonly Family[] };
  readonly syncFailed: { readonly failure: SyncFailure; readonly families: readonly Family[] };
  /** Stale chains could not be deleted. */
  readonly cleanUpFailed: { readonly families: readonly Family[] };
  /** Stale UDP flows were deleted. */
  readonly flowsCleaned: CleaningReport;
  readonly apiRequest: ApiRequestOutcome;
  /** The health server answered. */
  readonly healthAnswer: { readonly path: string; readonly status: number };
  /** A Kubernetes Event was not delivered. */
  readonly eventDropped: undefined;
  readonly loopbackBindFailed: { readonly family: Family };
}

/** Functions that return the samples of an occurrence, by its name. */
export type SampleMakers = {
  readonly [Name in keyof Occurrences]?: (occurrence: Occurrences[Name]) => readonly Sample[];
};

/** Parts that are read at each scrape. */
export interface ScrapedParts {
  readonly reconciler: Pick<Reconciler, "state" | "quarantined" | "excludedFamilies">;
  readonly tracker: Pick<ChangeTracker, "serviceChanges" | "endpointChanges" | "nodeLacks">;
  readonly runner: Pick<BoundedFrequencyRunner, "lastRequestedAt">;
  readonly health: { readonly pendingSince: number | undefined };
  readonly history: { readonly verifiedAt: number | undefined };
  readonly source: Pick<ObjectSource, "states">;
  readonly config: () => ConfigState;
  readonly conntrack: ConntrackUsage;
  readonly memory: MemoryUsage;
  readonly loopback: Pick<LoopbackProxy, "listeners" | "connections" | "refused">;
  readonly affinity: Pick<AffinityPoller, "entries" | "countedClients" | "deleted">;
}

/**
 * Reads the usage of the kernel's connection tracking. Both return undefined if the kernel tracks nothing
 * yet.
 */
interface ConntrackUsage {
  readonly entries: () => Promise<number | undefined>;
  /** Number of entries at which new connections are dropped. */
  readonly capacity: () => Promise<number | undefined>;
}

/**
 * The declaration of a metric and the source of its values: `scrape`, or fields with the names of
 * {@link Occurrences}, which return the samples of one. Times are seconds, timestamps seconds since 1970.
 */
export interface Metric extends SampleMakers {
  /**
   * Absent if the rest tells: buckets make a histogram, and a name that ends in `_total` a counter
   * (https://prometheus.io/docs/practices/naming/); all others are gauges.
   */
  readonly kind?: FeatureMetric["kind"];
  readonly help: string;
  /** Those of `zero` if absent. */
  readonly labels?: readonly string[];
  /** For a histogram. */
  readonly buckets?: readonly number[];
  /** Series that start at zero, as Prometheus' rate() misses the first increase of a new series. */
  readonly zero?: readonly Labels[];
  /** Returns all series with their values, at each scrape. */
  readonly scrape?: (parts: ScrapedParts) => readonly Sample[] | Promise<readonly Sample[]>;
}

/** Returns the label of a family, with kube-proxy's name. */
export function familyLabel(family: Family): { readonly ip_family: string } {
  return { ip_family: FAMILY_NAMES[family] };
}

/** Returns a sample for each family. @param value the value of every family, or a function of the family */
export function eachFamily(
  families: readonly Family[],
  value: number | ((family: Family) => number),
): readonly Sample[] {
  return families.map((family) => {
    return { labels: familyLabel(family), value: typeof value === "number" ? value : value(family) };
  });
}

/** Labels of both families, for {@link Metric.zero}. */
export const BOTH_FAMILIES: readonly Labels[] = FAMILIES.map(familyLabel);
