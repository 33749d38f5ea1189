import type { Family } from "../base/family.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { DaemonInput } from "./daemon-input.ts";
import { type HealthReport, HealthTracker, judgeHealth } from "./health/health.ts";
import type { Proxier } from "./proxier.ts";
import { SyncHistory, SyncTimeline } from "./status/sync-history.ts";

/** What a daemon knows of itself and its syncs, for health checks, the status page and commands. */
export interface Reports {
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly health: HealthTracker;
  /** The health at this moment. */
  readonly judge: () => HealthReport;
  readonly history: SyncHistory;
  readonly timeline: SyncTimeline;
}

/** Unhealthy is a kernel that has not been brought up to date for this many sync periods, as in kube-proxy. */
const UNHEALTHY_AFTER_PERIODS = 2;

/** @param options those in force */
export function createReports(
  { system: { clock } }: DaemonInput,
  options: () => ProxyOptions,
  families: readonly Family[],
  proxier: Proxier,
): Reports {
  const health = new HealthTracker(families, clock, proxier);
  const threshold = () => UNHEALTHY_AFTER_PERIODS * options().syncPeriodMs;
  return {
    startedAt: clock.now(),
    health,
    judge: () => judgeHealth(health.snapshot(), clock.now(), threshold()),
    history: new SyncHistory(),
    timeline: new SyncTimeline(health),
  };
}
