import { FAMILIES, FAMILY_NAMES } from "../../base/family.ts";
import { type HttpAnswer, jsonAnswer, type Routes } from "../http/http-server.ts";
import type { HealthReport } from "./health.ts";

/** The paths of the health server. */
export type HealthPath = "/healthz" | "/livez" | "/readyz";

/** What the health endpoints need. */
export interface HealthRoutesOptions {
  /** The health at this moment, see {@link judgeHealth}. */
  readonly judge: () => HealthReport;
  /** How the kernel stands beside the desired state, for /livez. */
  readonly progress: () => SyncProgress;
  /** Wall clock, milliseconds. */
  readonly now: () => number;
  /** Called with each answer, for the metrics. */
  readonly onAnswer: (path: HealthPath, status: number) => void;
}

/** How the kernel stands beside the desired state. Times are milliseconds since 1970. */
export interface SyncProgress {
  /** When the rules were last compared with the kernel; undefined before. */
  readonly verifiedAt: number | undefined;
  /** Time since which the rules have been out of date; undefined while they are up to date. */
  readonly pendingSince: number | undefined;
  /** How many service ports have no rules because the kernel refuses them. */
  readonly quarantined: number;
  /** The resources that have not been followed for a while: see kube/unfollowed.ts. */
  readonly unfollowed: readonly string[];
}

/**
 * The routes of the health server: /healthz for load balancers, /livez for the kubelet's liveness probe, /readyz (ours)
 * for its readiness probe.
 */
export function healthRoutes({ judge, progress, now, onAnswer }: HealthRoutesOptions): Routes {
  const route = (path: HealthPath, answer: (report: HealthReport, now: number) => HttpAnswer) => () => {
    const given = answer(judge(), now());
    onAnswer(path, given.status);
    return given;
  };
  return new Map([
    ["/healthz", route("/healthz", healthzAnswer)],
    ["/livez", route("/livez", (report, at) => livezAnswer(report, at, progress()))],
    ["/readyz", route("/readyz", readyzAnswer)],
  ]);
}

/** kube-proxy's answer of /healthz, with `reasons` added when it is 503. */
function healthzAnswer(report: HealthReport, now: number): HttpAnswer {
  const healthy = report.proxyHealthy && report.nodeEligible;
  return answer(report, now, healthy, { nodeEligible: report.nodeEligible });
}

/**
 * kube-proxy's answer of /livez: as /healthz, but the state of the node is no reason to restart the proxy. With fields of
 * our own for `fleet`, which often reaches no other port; `lastVerified` is always there, and tells nft-proxy from kube-proxy.
 */
function livezAnswer(
  report: HealthReport,
  now: number,
  { verifiedAt, pendingSince, quarantined, unfollowed }: SyncProgress,
): HttpAnswer {
  return answer(report, now, report.live, {
    lastVerified: timestamp(verifiedAt),
    quarantinedServicePorts: quarantined,
    ...(pendingSince === undefined ? {} : { outOfSyncSince: timestamp(pendingSince) }),
    ...(unfollowed.length === 0 ? {} : { unfollowed }),
  });
}

/** Ready is a proxy whose rules have been in the kernel once, however it fares since. */
function readyzAnswer(report: HealthReport, now: number): HttpAnswer {
  return answer(report, now, report.ready, {});
}

function answer(
  report: HealthReport,
  now: number,
  healthy: boolean,
  extra: Record<string, unknown>,
): HttpAnswer {
  const body = {
    // While healthy, kube-proxy's load balancers are told of now rather than of the last sync.
    lastUpdated: timestamp(healthy ? now : lastSync(report)),
    currentTime: timestamp(now),
    ...extra,
    healthy,
    status: familyStatus(report),
    ...(report.reasons.length > 0 ? { reasons: report.reasons } : {}),
  };
  return jsonAnswer(JSON.stringify(body), healthy ? 200 : 503);
}

function familyStatus({ families }: HealthReport): Record<string, unknown> {
  const status: Record<string, unknown> = {};
  for (const family of FAMILIES) {
    const verdict = families[family];
    if (verdict === undefined) continue;
    status[FAMILY_NAMES[family]] = {
      lastUpdated: timestamp(verdict.lastSynced),
      healthy: verdict.healthy,
      ...(verdict.reason === "" ? {} : { reason: verdict.reason }),
    };
  }
  return status;
}

function lastSync({ families }: HealthReport): number | undefined {
  const times = Object.values(families).flatMap(({ lastSynced }) =>
    lastSynced === undefined ? [] : [lastSynced],
  );
  return times.length === 0 ? undefined : Math.min(...times);
}

/** RFC 3339; for never, the time that Go prints for it. */
function timestamp(milliseconds: number | undefined): string {
  return milliseconds === undefined ? "0001-01-01T00:00:00Z" : new Date(milliseconds).toISOString();
}
