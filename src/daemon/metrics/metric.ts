import { type ByFamily, FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import type { CleaningReport } from "../../conntrack/stale-flow-cleaner.ts";
import type { MemoryUsage } from "../../kernel/memory-usage.ts";
import type { HostVersions } from "../../kernel/versions.ts";
import type { ApiRequestOutcome } from "../../kube/client/client.ts";
import type { ObjectSource } from "../../kube/source.ts";
import type { RefusalReason } from "../../ruleset/refusal-reason.ts";
import type { BoundedFrequencyRunner } from "../../sync/bounded-frequency-runner.ts";
import type { ChangeTracker } from "../../sync/change-tracker.ts";
import type { Reconciler } from "../../sync/reconciler.ts";
import type { SyncFailure, SyncReport } from "../../sync/sync-report.ts";
import type { AffinityDeletion, AffinityPoller } from "../readings/affinity-poller.ts";
import type { ConnectionCounts, ResetPackets } from "../readings/connection-counts.ts";

/** The labels of one series. */
export type Labels = Readonly<Record<string, string>>;

/** A value for one series: what a counter is increased by, what a gauge is set to, what a histogram observes. */
export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

/** What happens in the daemon that metrics count or time. */
export interface Occurrences {
  /** The daemon was made, of this version of nft-proxy. */
  readonly started: HostVersions & { readonly version: string };
  /** A sync, and the families that were programmed: both change in one transaction and so have the same times. */
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
  /** Packets of new connections that the rules refused; `service` is `namespace/name`, "" where there is none. */
  readonly packetsRefused: {
    readonly service: string;
    readonly reason: RefusalReason;
    readonly packets: number;
  };
  /** Entries of the affinity map were deleted: of Service ports that are gone, or of those with the most, for others to have room. */
  readonly affinityDeleted: { readonly reason: AffinityDeletion; readonly entries: number };
  /** The listeners of each family, and the open connections of all, for NodePorts at loopback addresses. */
  readonly loopbackChanged: { readonly listeners: ByFamily<number>; readonly connections: number };
  readonly loopbackBindFailed: { readonly family: Family };
  readonly loopbackRefused: { readonly reason: "limit" | "unreachable" };
}

/** What is read whenever metrics are scraped. */
export interface ScrapedParts {
  readonly reconciler: Pick<Reconciler, "state" | "quarantined" | "excludedFamilies">;
  readonly tracker: Pick<ChangeTracker, "services" | "endpoints">;
  readonly runner: Pick<BoundedFrequencyRunner, "lastRequestedAt">;
  readonly health: { readonly pendingSince: number | undefined };
  readonly history: { snapshot(): { readonly verifiedAt: number | undefined } };
  readonly source: Pick<ObjectSource, "states">;
  readonly conntrack: ConntrackUsage;
  readonly memory: MemoryUsage;
  /** Undefined where connections are not counted. */
  readonly connectionCounts: (() => Promise<ConnectionCounts>) | undefined;
  /** Undefined where connections to vanished endpoints are not reset. */
  readonly resetPackets: (() => Promise<ResetPackets>) | undefined;
  readonly affinity: Pick<AffinityPoller, "entries">;
  /** Undefined where no connection takes the fast path. */
  readonly fastPath: { readonly count: number } | undefined;
}

/** Reads how full the kernel's connection tracking is. Both give undefined where the kernel tracks nothing yet. */
export interface ConntrackUsage {
  readonly entries: () => Promise<number | undefined>;
  /** New connections are dropped when there are this many entries. */
  readonly capacity: () => Promise<number | undefined>;
}

/** A metric: how it is declared, and where its values come from. Times are in seconds, timestamps in seconds since 1970. */
export interface Metric {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels?: readonly string[];
  /** Of a histogram. */
  readonly buckets?: readonly number[];
  /** The series at zero from the start: Prometheus' rate() misses the first increase of a series that did not exist before it. */
  readonly zero?: readonly Labels[];
  /** The samples of what happened. */
  readonly on?: {
    readonly [Name in keyof Occurrences]?: (occurrence: Occurrences[Name]) => readonly Sample[];
  };
  /** Every series with its value, at each scrape. */
  readonly scrape?: (parts: ScrapedParts) => readonly Sample[] | Promise<readonly Sample[]>;
  /** The daemon has this metric only where it has that part. */
  readonly needs?: "connectionCounts" | "resetPackets" | "fastPath";
}

/** One sample without labels, or with these. */
export function one(value: number, labels: Labels = {}): readonly Sample[] {
  return [{ labels, value }];
}

/** The label of a family, under kube-proxy's name for it. */
export function familyLabel(family: Family): { readonly ip_family: string } {
  return { ip_family: FAMILY_NAMES[family] };
}

/** The same value for each of these families. */
export function eachFamily(families: readonly Family[], value: number): readonly Sample[] {
  return families.map((family) => ({ labels: familyLabel(family), value }));
}

/** Labels of both families, for {@link Metric.zero}. */
export const BOTH_FAMILIES: readonly Labels[] = FAMILIES.map(familyLabel);
