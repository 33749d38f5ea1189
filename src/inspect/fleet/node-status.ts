import { listText } from "../../base/text.ts";
import type { FleetPod } from "./fleet-pod.ts";
import type { FleetNode } from "./fleet-report.ts";
import { metricsOf } from "./parse-metrics.ts";

/** An answer through the API server's pod proxy; undefined when there was none. */
export type ProxyAnswer = { readonly status: number; readonly body: string } | undefined;

/** Seconds: twice the default time between full comparisons, which a busy cluster may have to wait for. Older is unverified. */
const VERIFIED_WITHIN = 7200;

/** Seconds. In a busy cluster a change is always about to be programmed; older than this, a node is called out of sync. */
const SYNCED_WITHIN = 5;

/** The most characters of a foreign answer that are shown. */
const SHOWN = 200;

/** The parts of nft-proxy's /livez that are read; times are RFC 3339. */
interface LivezBody {
  readonly currentTime: string;
  /** In the year 1 before the first verification. */
  readonly lastVerified: string;
  readonly outOfSyncSince?: string;
  readonly quarantinedServicePorts?: number;
  readonly status?: Readonly<Record<string, { readonly healthy?: boolean }>>;
  readonly reasons?: readonly string[];
  /** Resources that it does not follow. */
  readonly unfollowed?: readonly string[];
}

/** The parts of a FleetNode that /livez tells. */
type LivezFacts = Required<Pick<FleetNode, "outOfSyncFor" | "quarantined">> & Pick<FleetNode, "verifiedAgo">;

/** Judges a node from what its /livez and its /metrics answered. */
export function nodeStatus({ node, name, trouble }: FleetPod, livez: ProxyAnswer, metrics: ProxyAnswer): FleetNode {
  const body = readBody(livez?.body);
  if (livez === undefined || body === undefined) {
    const reason = livez === undefined ? "no answer by way of the API server" : foreignAnswer(livez);
    return { node, pod: name, state: "unreachable", reason: trouble === "" ? reason : `${trouble}; ${reason}` };
  }
  const facts = factsOf(body);
  const told = metrics?.status === 200 ? metricsOf(metrics.body) : undefined;
  return {
    node,
    pod: name,
    ...judge(livez.status, body, facts),
    ...facts,
    ...(told === undefined ? {} : { metrics: told }),
  };
}

function factsOf({ currentTime, lastVerified, outOfSyncSince, quarantinedServicePorts = 0 }: LivezBody): LivezFacts {
  const now = Date.parse(currentTime);
  const secondsSince = (time: string) => Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  return {
    outOfSyncFor: outOfSyncSince === undefined ? 0 : secondsSince(outOfSyncSince),
    quarantined: quarantinedServicePorts,
    ...(Date.parse(lastVerified) > 0 ? { verifiedAgo: secondsSince(lastVerified) } : {}),
  };
}

function judge(
  status: number,
  { status: families = {}, reasons = [], unfollowed = [] }: LivezBody,
  { outOfSyncFor, quarantined, verifiedAgo }: LivezFacts,
): Pick<FleetNode, "state" | "reason"> {
  const verdicts = Object.values(families);
  const isNothingServed = verdicts.length > 0 && verdicts.every(({ healthy }) => healthy === false);
  const lost =
    unfollowed.length === 0 ? [] : [`it does not follow ${listText(unfollowed)}: it keeps the last known ones`];
  const reason = [...reasons, ...lost].join("; ");
  // Before its first sync a daemon answers 200: a restart would not help it.
  if (status !== 200 || isNothingServed) return { state: "unhealthy", reason: reason || `HTTP status ${status}` };
  if (reason !== "") return { state: "degraded", reason };
  if (outOfSyncFor > SYNCED_WITHIN) {
    return { state: "out-of-sync", reason: `the kernel has lacked a change for ${outOfSyncFor} s` };
  }
  if (quarantined > 0) {
    const ports = quarantined === 1 ? "1 service port" : `${quarantined} service ports`;
    return { state: "quarantine", reason: `the kernel refuses ${ports}` };
  }
  if (verifiedAgo === undefined) return { state: "unverified", reason: "the kernel was not verified yet" };
  if (verifiedAgo > VERIFIED_WITHIN) return { state: "unverified", reason: `last verified ${verifiedAgo} s ago` };
  return { state: "healthy" };
}

/** The body of nft-proxy's /livez; undefined for anything else. */
function readBody(text: string | undefined): LivezBody | undefined {
  const body = parsed(text) as Partial<LivezBody> | null | undefined;
  const times = [body?.currentTime, body?.lastVerified, body?.outOfSyncSince ?? body?.currentTime];
  return times.every((time) => Number.isFinite(Date.parse(String(time)))) ? (body as LivezBody) : undefined;
}

/** Describes an answer that is not nft-proxy's: the API server's own, another service proxy's, or another program's. */
function foreignAnswer({ status, body: text }: { readonly status: number; readonly body: string }): string {
  const body = parsed(text) as { readonly currentTime?: unknown; readonly message?: unknown } | null | undefined;
  if (typeof body?.currentTime === "string")
    return "another service proxy, such as kube-proxy, answers its health checks";
  const message =
    typeof body?.message === "string" ? body.message : status === 200 ? "not the answer of nft-proxy" : "";
  return `HTTP status ${status}${message === "" ? "" : `: ${message.slice(0, SHOWN)}`}`;
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}
