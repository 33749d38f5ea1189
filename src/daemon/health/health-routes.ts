import type { Clock } from "../../base/clock.ts";
import { FAMILY_NAMES } from "../../base/family.ts";
import type { DaemonProblem } from "../../socket/daemon-protocol.ts";
import { type HttpAnswer, jsonAnswer, type Routes } from "../http/http-server.ts";
import type { HealthReport, HealthTracker } from "./health.ts";
import type { SyncHistory } from "./sync-history.ts";

/** The paths of the health server. */
export type HealthPath = "/healthz" | "/livez" | "/readyz";

/** What the health endpoints tell. */
interface HealthSource {
  /** Returns the current health, see {@link judgeHealth}. */
  judge(): HealthReport;
  problems(): readonly DaemonProblem[];
  /** Number of service ports in quarantine. */
  readonly quarantinedCount: () => number;
  readonly health: Pick<HealthTracker, "pendingSince">;
  readonly history: Pick<SyncHistory, "verifiedAt">;
}

/**
 * Returns the routes of the health server: /healthz for load balancers, /livez for the kubelet's liveness
 * probe, and our own /readyz for its readiness probe.
 * @param onAnswer called for each answer, for metrics
 */
export function healthRoutes(
  source: HealthSource,
  clock: Pick<Clock, "now">,
  onAnswer: (path: HealthPath, status: number) => void,
): Routes {
  const route = (path: HealthPath, answer: (report: HealthReport, now: number) => HttpAnswer) => () => {
    const given = answer(source.judge(), clock.now());
    onAnswer(path, given.status);
    return given;
  };
  return new Map([
    ["/healthz", route("/healthz", (report, at) => healthzAnswer(report, at, source.problems()))],
    ["/livez", route("/livez", (report, at) => livezAnswer(report, at, source))],
    // A proxy is ready once its rules have been in the kernel, whatever happens later.
    ["/readyz", route("/readyz", (report, at) => answer(report, at, report.lastSynced !== undefined, {}))],
  ]);
}

/** Answers /healthz as kube-proxy does. Adds `reasons` if it is 503, and for each problem. */
function healthzAnswer(report: HealthReport, now: number, problems: readonly DaemonProblem[]): HttpAnswer {
  const healthy = report.proxyHealthy && report.nodeEligible;
  // An unhealthy report says itself that the rules are out of date.
  const others = problems.filter(({ kind }) => kind !== "programming" || report.proxyHealthy);
  const reasons = [...report.reasons, ...others.map(({ found }) => found)];
  return answer({ ...report, reasons }, now, healthy, { nodeEligible: report.nodeEligible });
}

/**
 * Answers /livez as kube-proxy does: like /healthz, but the state of the node is no reason to restart the
 * proxy, and before the first sync a restart would not help. Adds fields for `fleet`, which often cannot
 * reach another port. `lastVerified` is always present, and shows that this is not kube-proxy.
 */
function livezAnswer(report: HealthReport, now: number, source: HealthSource): HttpAnswer {
  const { pendingSince } = source.health;
  const problems = source.problems();
  return answer(report, now, report.proxyHealthy || report.lastSynced === undefined, {
    lastVerified: timestamp(source.history.verifiedAt),
    quarantinedServicePorts: source.quarantinedCount(),
    ...(pendingSince === undefined ? {} : { outOfSyncSince: timestamp(pendingSince) }),
    ...(problems.length === 0 ? {} : { problems: problems.map(({ kind, found }) => ({ kind, found })) }),
  });
}

function answer(
  report: HealthReport,
  now: number,
  healthy: boolean,
  extra: Record<string, unknown>,
): HttpAnswer {
  const body = {
    // kube-proxy gives the current time while it is healthy, not that of the last sync.
    lastUpdated: timestamp(healthy ? now : report.lastSynced),
    currentTime: timestamp(now),
    ...extra,
    healthy,
    status: familyStatus(report),
    ...(report.reasons.length > 0 ? { reasons: report.reasons } : {}),
  };
  return jsonAnswer(JSON.stringify(body), healthy ? 200 : 503);
}

function familyStatus({ families }: HealthReport): Record<string, unknown> {
  const verdicts = families.map(({ family, lastSynced, healthy, reason }) => {
    const lastUpdated = timestamp(lastSynced);
    return [FAMILY_NAMES[family], { lastUpdated, healthy, ...(reason !== "" && { reason }) }];
  });
  return Object.fromEntries(verdicts);
}

/** Formats a time by RFC 3339; undefined as Go's zero time. */
function timestamp(milliseconds: number | undefined): string {
  return milliseconds === undefined ? "0001-01-01T00:00:00Z" : new Date(milliseconds).toISOString();
}
