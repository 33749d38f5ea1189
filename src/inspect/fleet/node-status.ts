import type { FleetMetrics, FleetNode } from "./fleet-report.ts";
import { metricsOf } from "./parse-metrics.ts";

/** An answer through the API server's pod proxy; undefined when there was none. */
export type ProxyAnswer = { readonly status: number; readonly body: string } | undefined;

/** A verification may take its time; older than this, a node is called unverified. */
const VERIFIED_WITHIN = 3600;

/** The parts of /livez that are read; times are RFC 3339. */
interface LivezBody {
  readonly currentTime: string;
  readonly lastVerified?: string;
  readonly reasons?: readonly string[];
}

/** Judges a node from what its /livez and its /metrics answered. */
export function nodeStatus(node: string, pod: string, livez: ProxyAnswer, metricsAnswer: ProxyAnswer): FleetNode {
  const body = readBody(livez?.body);
  if (livez === undefined || body === undefined) {
    const reason = livez === undefined ? "no answer by way of the API server" : `HTTP status ${livez.status}`;
    return { node, pod, state: "unreachable", reason };
  }
  const now = Date.parse(body.currentTime) / 1000;
  const verified = body.lastVerified === undefined ? Number.NaN : Date.parse(body.lastVerified) / 1000;
  const verifiedAgo = Number.isFinite(verified) && verified > 0 ? Math.max(0, Math.round(now - verified)) : undefined;
  const metrics = metricsAnswer?.status === 200 ? metricsOf(metricsAnswer.body, now) : undefined;
  return {
    node,
    pod,
    ...judge(livez.status, body, verifiedAgo, metrics),
    ...(verifiedAgo === undefined ? {} : { verifiedAgo }),
    ...(metrics === undefined ? {} : { metrics }),
  };
}

function judge(
  status: number,
  { reasons }: LivezBody,
  verifiedAgo: number | undefined,
  metrics: FleetMetrics | undefined,
): Pick<FleetNode, "state" | "reason"> {
  if (status !== 200) return { state: "unhealthy", reason: (reasons ?? []).join("; ") || `HTTP status ${status}` };
  if (metrics !== undefined && metrics.outOfSyncFor > 0) {
    return { state: "out-of-sync", reason: `the kernel has lacked a change for ${metrics.outOfSyncFor} s` };
  }
  if (metrics !== undefined && metrics.quarantined > 0) {
    return { state: "quarantine", reason: `the kernel refuses ${metrics.quarantined} service ports` };
  }
  if (verifiedAgo === undefined) return { state: "unverified", reason: "the kernel was not verified yet" };
  if (verifiedAgo > VERIFIED_WITHIN) return { state: "unverified", reason: `last verified ${verifiedAgo} s ago` };
  return { state: "healthy" };
}

function readBody(text: string | undefined): LivezBody | undefined {
  try {
    const body = JSON.parse(text ?? "") as Partial<LivezBody> | null;
    return typeof body?.currentTime === "string" ? (body as LivezBody) : undefined;
  } catch {
    return undefined;
  }
}
