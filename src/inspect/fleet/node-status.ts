import { listText, parsedJson } from "../../base/text.ts";
import { type HttpAnswer, isOwnLivez, type OwnHealth, type ProxyHealth, readHealth } from "../http-answer.ts";

/** Whether a node's nft-proxy works, the worst state first. */
export const FLEET_STATES = [
  "no-pod",
  "unreachable",
  "unhealthy",
  "degraded",
  "out-of-sync",
  "quarantine",
  "unverified",
  "healthy",
] as const;

/** The state of one node's nft-proxy; stable words for scripts. */
export type FleetState = (typeof FLEET_STATES)[number];

/** One node's nft-proxy, as it reports itself. Seconds are relative to the node's own clock. */
export interface FleetNode {
  readonly node: string;
  /** "" without one. */
  readonly pod: string;
  readonly state: FleetState;
  /** Why it is not healthy; absent when it is. */
  readonly reason?: string;
  /** Seconds since the kernel was last compared with the desired state; absent before. */
  readonly verifiedAgo?: number;
  /** Seconds for which the kernel has lacked a change, 0 while it is up to date; absent where it does not answer. */
  readonly outOfSyncFor?: number;
  /** Service ports without rules, as the kernel refuses them; absent where it does not answer. */
  readonly quarantined?: number;
  /** The rest is from its metrics; absent when the metrics address is out of reach. */
  readonly metrics?: FleetMetrics;
}

/** What the metrics of a node tell. */
export interface FleetMetrics {
  readonly version: string;
  /** Repairs of what others changed, since the start. */
  readonly driftRepairs: number;
  /** Packets of new connections that the rules refused or dropped, since the start. */
  readonly refused: number;
  /** Seconds from a change to its rules in the kernel that 99 % stay below; absent without a change, or beside the next. */
  readonly lagP99?: number;
  /** Seconds that more than 1 % of the changes took longer than: more than is measured. */
  readonly lagP99Above?: number;
}

/** A pod of nft-proxy on a node. */
export interface FleetPod {
  readonly name: string;
  readonly node: string;
  /** Why it may not answer, such as `its pod is Pending (ErrImagePull)`; "" when nothing is known to be wrong. */
  readonly trouble: string;
}

/** Sorts the worst first, then by name. */
export function compareNodes(a: FleetNode, b: FleetNode): number {
  const rank = FLEET_STATES.indexOf(a.state) - FLEET_STATES.indexOf(b.state);
  if (rank !== 0) return rank;
  const drift = (b.metrics?.driftRepairs ?? 0) - (a.metrics?.driftRepairs ?? 0);
  if (drift !== 0) return drift;
  const refused = (b.metrics?.refused ?? 0) - (a.metrics?.refused ?? 0);
  if (refused !== 0) return refused;
  return a.node < b.node ? -1 : 1;
}

/** Seconds: twice the default time between full comparisons, which a busy cluster may have to wait for. Older is unverified. */
const VERIFIED_WITHIN = 7200;

/** Seconds. In a busy cluster a change is always about to be programmed; older than this, a node is called out of sync. */
const SYNCED_WITHIN = 5;

/** The most characters of a foreign answer that are shown. */
const SHOWN = 200;

/** The parts of a FleetNode that /livez tells. */
type LivezFacts = Required<Pick<FleetNode, "outOfSyncFor" | "quarantined">> & Pick<FleetNode, "verifiedAgo">;

/**
 * Judges a node from what its /livez and its /metrics answered by way of the API server's pod proxy.
 * @param livez undefined when there was no answer, as `metrics`
 */
export function nodeStatus(
  { node, name, trouble }: FleetPod,
  livez: HttpAnswer | undefined,
  metrics: HttpAnswer | undefined,
): FleetNode {
  const health = livez === undefined ? undefined : readHealth(livez);
  if (livez === undefined || !isOwnLivez(health)) {
    const reason = livez === undefined ? "no answer by way of the API server" : foreignAnswer(livez, health);
    return {
      node,
      pod: name,
      state: "unreachable",
      reason: trouble === "" ? reason : `${trouble}; ${reason}`,
    };
  }
  const facts = factsOf(health);
  const told = metrics?.status === 200 ? metricsOf(metrics.body) : undefined;
  return {
    node,
    pod: name,
    ...judge(livez.status, health, facts),
    ...facts,
    ...(told === undefined ? {} : { metrics: told }),
  };
}

function factsOf({
  currentTime,
  lastVerified,
  outOfSyncSince,
  quarantinedServicePorts = 0,
}: OwnHealth): LivezFacts {
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
  { status: families = {}, reasons = [], unfollowed = [] }: OwnHealth,
  { outOfSyncFor, quarantined, verifiedAgo }: LivezFacts,
): Pick<FleetNode, "state" | "reason"> {
  const verdicts = Object.values(families);
  const isNothingServed = verdicts.length > 0 && verdicts.every(({ healthy }) => healthy === false);
  const lost =
    unfollowed.length === 0
      ? []
      : [`it does not follow ${listText(unfollowed)}: it keeps the last known ones`];
  const reason = [...reasons, ...lost].join("; ");
  // Before its first sync a daemon answers 200: a restart would not help it.
  if (status !== 200 || isNothingServed)
    return { state: "unhealthy", reason: reason || `HTTP status ${status}` };
  if (reason !== "") return { state: "degraded", reason };
  if (outOfSyncFor > SYNCED_WITHIN) {
    return { state: "out-of-sync", reason: `the kernel has lacked a change for ${outOfSyncFor} s` };
  }
  if (quarantined > 0) {
    const ports = quarantined === 1 ? "1 service port" : `${quarantined} service ports`;
    return { state: "quarantine", reason: `the kernel refuses ${ports}` };
  }
  if (verifiedAgo === undefined) return { state: "unverified", reason: "the kernel was not verified yet" };
  if (verifiedAgo > VERIFIED_WITHIN)
    return { state: "unverified", reason: `last verified ${verifiedAgo} s ago` };
  return { state: "healthy" };
}

/** Describes an answer that is not nft-proxy's: the API server's own, another service proxy's, or another program's. */
function foreignAnswer({ status, body }: HttpAnswer, health: ProxyHealth | undefined): string {
  if (health !== undefined) return "another service proxy, such as kube-proxy, answers its health checks";
  const { message } = (parsedJson(body) ?? {}) as { readonly message?: unknown };
  if (typeof message === "string") return `HTTP status ${status}: ${message.slice(0, SHOWN)}`;
  return `HTTP status ${status}${status === 200 ? ": not the answer of nft-proxy" : ""}`;
}

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The metrics of one nft-proxy from a text in Prometheus' format; undefined for those of another program. */
function metricsOf(text: string): FleetMetrics | undefined {
  const samples = text.split("\n").flatMap(sampleOf);
  const of = (name: string) => samples.filter((sample) => sample.name === `nft_proxy_${name}`);
  const sum = (name: string) => of(name).reduce((total, { value }) => total + value, 0);
  const [build] = of("build_info");
  if (build === undefined) return undefined;
  return {
    version: build.labels.version ?? "",
    driftRepairs: sum("drift_repairs_total"),
    refused: sum("refused_packets_total"),
    ...lagOf(of("change_lag_seconds_bucket")),
  };
}

function sampleOf(line: string): Sample[] {
  const [, name = "", labels = "", value] = /^(nft_proxy_\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  if (value === undefined) return [];
  const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = "", text = ""]) => [
    key,
    text,
  ]);
  return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
}

/** The upper bound of the bucket of a histogram that has the 99th percentile of the lag. */
function lagOf(buckets: readonly Sample[]): Pick<FleetMetrics, "lagP99" | "lagP99Above"> {
  const sorted = buckets
    .map(({ labels, value }) => ({
      bound: labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le),
      value,
    }))
    .sort((a, b) => a.bound - b.bound);
  const all = sorted.at(-1)?.value ?? 0;
  if (all === 0) return {};
  const bound = sorted.find(({ value }) => value >= 0.99 * all)?.bound ?? Number.POSITIVE_INFINITY;
  return Number.isFinite(bound) ? { lagP99: bound } : { lagP99Above: sorted.at(-2)?.bound ?? 0 };
}
