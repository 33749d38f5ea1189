import { type Clock, wallTime } from "../../base/clock.ts";
import { type ByFamily, FAMILY_NAMES, type Family } from "../../base/family.ts";
import type { Node } from "../../model/node.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { BoundedFrequencyRunner } from "../../sync/bounded-frequency-runner.ts";
import type { ChangeTracker } from "../../sync/change-tracker.ts";
import type { SyncHistory } from "./sync-history.ts";

/** Number of sync periods after which out-of-date rules make the proxy unhealthy, as in kube-proxy. */
export const UNHEALTHY_AFTER_PERIODS = 2;

/** The taint that the cluster autoscaler puts on a node before it deletes it (KEP-3836). */
const TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler";

/**
 * The state that health is judged by. Both families change in one transaction, and have the same times.
 * Milliseconds since 1970.
 */
export interface HealthSnapshot {
  /** The families of the host. */
  readonly families: readonly Family[];
  /** Why the kernel refuses the tables of a family; absent if it accepts them. */
  readonly excluded: Partial<ByFamily<string>>;
  /** Time at which the rules were last up to date; undefined before the first sync. */
  readonly lastSynced: number | undefined;
  /** Time since which the rules have been out of date; undefined if they are up to date. */
  readonly pendingSince: number | undefined;
  /** Why they are out of date, or why the last sync failed; "" if no reason but time is known. */
  readonly problem: string;
  readonly nodeName: string;
  /** Undefined until our Node object is first received. */
  readonly node: Pick<Node, "deleting" | "taints"> | undefined;
}

/** The health of the proxy and its node. */
export type HealthReport = ReturnType<typeof judgeHealth>;

/**
 * Judges a snapshot at `now`. Unhealthy means that the rules have been out of date for at least `threshold`
 * milliseconds. An idle proxy is healthy, however long nothing has changed.
 */
export function judgeHealth(snapshot: HealthSnapshot, now: number, threshold: number) {
  const { excluded, lastSynced } = snapshot;
  const outOfDate = whyOutOfDate(snapshot, now, threshold);
  const proxyHealthy = outOfDate === "";
  const families = snapshot.families.map((family) => {
    const why = excluded[family];
    const isExcluded = why !== undefined;
    return {
      family,
      /**
       * Whether the kernel refuses its tables. This does not make the proxy unhealthy, because it programs
       * the other family.
       */
      isExcluded,
      healthy: proxyHealthy && !isExcluded,
      lastSynced: isExcluded ? undefined : lastSynced,
      /** "" if it is healthy. */
      reason: isExcluded ? `${FAMILY_NAMES[family]} is not served: ${why}` : outOfDate,
    };
  });
  const ineligible = whyIneligible(snapshot);
  const reasons = [...families.map(({ reason }) => reason), ineligible];
  return {
    /** The rules are up to date, or have not been out of date for too long. */
    proxyHealthy,
    /**
     * Whether load balancers may send new connections to this node: its Node exists and is not being deleted.
     */
    nodeEligible: ineligible === "",
    /** As in {@link HealthSnapshot}. */
    lastSynced,
    families,
    /** The problems, one sentence each; empty if there are none. */
    reasons: [...new Set(reasons.filter((reason) => reason !== ""))],
  };
}

/** Whether a family can take new connections: the kernel has its rules, and they are current. */
export function isServed({ proxyHealthy, families }: HealthReport, family: Family): boolean {
  return proxyHealthy && !families.some((one) => one.family === family && one.isExcluded);
}

function whyOutOfDate(snapshot: HealthSnapshot, now: number, threshold: number): string {
  const { lastSynced, pendingSince, problem } = snapshot;
  if (pendingSince === undefined) return "";
  const pending = now - pendingSince;
  if (pending < threshold) return "";
  const what = outOfDateText(lastSynced, `${Math.floor(pending / 1000)} s`);
  return problem === "" ? what : `${what}: ${problem}`;
}

/** @param duration how long the kernel has lacked changes, as text */
export function outOfDateText(lastSynced: number | undefined, duration: string): string {
  return lastSynced === undefined
    ? `nothing has been programmed in the ${duration} since the start`
    : `the rules have been out of date for ${duration}`;
}

function whyIneligible({ node, nodeName }: HealthSnapshot): string {
  if (node === undefined) return `the API server has not listed the Node ${nodeName}`;
  if (node.deleting) return "the node is being deleted";
  if (node.taints.includes(TO_BE_DELETED_TAINT)) return `the node has the taint ${TO_BE_DELETED_TAINT}`;
  return "";
}

/** Parts that a {@link HealthTracker} reads. */
interface Watched {
  readonly tracker: Pick<ChangeTracker, "waitingFor">;
  readonly runner: Pick<BoundedFrequencyRunner, "pendingSince">;
  readonly cache: Pick<ObjectCache, "node" | "isNodeKnown">;
  readonly history: Readonly<Pick<SyncHistory, "lastSyncedAt" | "problem" | "excludedFamilies">>;
}

/** Knows the state of the rules, for {@link HealthSnapshot}. */
export type HealthTracker = ReturnType<typeof healthTracker>;

/** The time before the first sync counts from this call on. @param families those of the host */
export function healthTracker(
  families: readonly Family[],
  clock: Pick<Clock, "now" | "monotonic">,
  { tracker, runner, cache, history }: Watched,
) {
  // On the monotonic clock, because the wall clock may be set.
  const startedAt = clock.monotonic();
  let awaited: string | undefined;
  const pendingSince = () =>
    history.lastSyncedAt === undefined ? wallTime(clock, startedAt) : runner.pendingSince;
  return {
    /** Sets what the proxy waits for before it starts its work; undefined if it does not wait. */
    waitFor(given: string | undefined): void {
      awaited = given;
    },
    /**
     * Since when the rules have been out of date, milliseconds since 1970; undefined if they are not. Before
     * the first sync they always are, even if no sync has been requested: the first lists are not complete.
     * Do not spread the tracker into another object: there, this would keep the value of that moment.
     */
    get pendingSince(): number | undefined {
      return pendingSince();
    },
    snapshot(): HealthSnapshot {
      const waitingFor = awaited === undefined ? tracker.waitingFor : [awaited];
      return {
        lastSynced: history.lastSyncedAt,
        pendingSince: pendingSince(),
        problem: waitingFor.length > 0 ? `waiting for ${waitingFor.join(", ")}` : (history.problem ?? ""),
        families,
        excluded: Object.fromEntries(history.excludedFamilies),
        nodeName: cache.node.name,
        node: cache.isNodeKnown ? cache.node : undefined,
      };
    },
  };
}
