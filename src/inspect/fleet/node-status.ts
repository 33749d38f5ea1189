import { secondsBetween } from "../../base/duration.ts";
import { compareKeys } from "../../base/first-sorted.ts";
import { groupBy } from "../../base/group-by.ts";
import { counted, parsedJson } from "../../base/text.ts";
import type { ProblemKind } from "../../socket/daemon-protocol.ts";
import { type HttpAnswer, isOwnLivez, type OwnHealth, type ProxyHealth, readHealth } from "../http-answer.ts";

/** States of nft-proxy on a node, the worst first. */
export const FLEET_STATES = [
  "no-pod",
  "unreachable",
  "unhealthy",
  "degraded",
  "out-of-sync",
  "quarantine",
  "unverified",
  "healthy",
  "not-selected",
] as const;

/** The state of nft-proxy on one node; stable words for scripts. */
export type FleetState = (typeof FLEET_STATES)[number];

/** nft-proxy on one node, as it reports itself. Seconds are relative to the node's own clock. */
export interface FleetNode {
  readonly node: string;
  /** "" if there is none. */
  readonly pod: string;
  readonly state: FleetState;
  /** Why it is not healthy; absent if it is. */
  readonly reason?: string;
  /** Seconds since the kernel was last compared with the desired state; absent before that. */
  readonly verifiedAgo?: number;
  /**
   * Seconds for which the rules have been out of date, 0 if they are up to date; absent if it does not
   * answer.
   */
  readonly outOfSyncFor?: number;
  /** Service ports without rules because the kernel refuses them; absent if it does not answer. */
  readonly quarantined?: number;
  /** Values from its metrics; absent if the metrics address cannot be reached. */
  readonly metrics?: FleetMetrics | undefined;
}

/** Values from the metrics of a node. */
export interface FleetMetrics {
  readonly version: string;
  /** Repairs of changes by other programs, since the start. */
  readonly driftRepairs: number;
  /** Packets of new connections that the rules refused or dropped, since the start. */
  readonly refused: number;
  /** Endpoints that get no new connections because they do not answer the node: at most 100. */
  readonly ejected: readonly { readonly endpoint: string; readonly service: string }[];
  /** 99th percentile of the time from a change to its rules, seconds; absent without a change. */
  readonly lagP99?: number;
  /** The upper limit of the measured range, seconds; instead of `lagP99` if that is above it. */
  readonly lagP99Above?: number;
}

/**
 * The endpoints that nodes eject, as `10.244.1.12:8080` with one of its Services, those of most nodes first.
 * `byMost` says whether most nodes, and at least two, eject it: the network of a single node is then not the
 * cause.
 */
export function fleetEjections(nodes: readonly FleetNode[]) {
  const known = nodes.flatMap(({ node, metrics }) =>
    (metrics?.ejected ?? []).map((ejected) => ({ ...ejected, node })),
  );
  const answering = new Set(nodes.flatMap(({ node, metrics }) => (metrics === undefined ? [] : [node]))).size;
  const ejections = [...groupBy(known, ({ endpoint }) => endpoint)].map(([endpoint, group]) => {
    const by = [...new Set(group.map(({ node }) => node))].sort();
    const byMost = by.length > 1 && 2 * by.length > answering;
    return { endpoint, service: group[0]?.service ?? "", nodes: by, byMost };
  });
  return ejections.sort((a, b) => b.nodes.length - a.nodes.length || (a.endpoint < b.endpoint ? -1 : 1));
}

/** A pod of nft-proxy on a node. */
export interface FleetPod {
  readonly name: string;
  readonly node: string;
  /** Why it may not answer, such as `its pod is Pending (ErrImagePull)`; "" if no problem is known. */
  readonly trouble: string;
  /** The container of nft-proxy; undefined if the pod names none. */
  readonly container?: string | undefined;
  /** The ports that its containers declare, by name: `healthz`, `metrics`. */
  readonly ports: Readonly<Record<string, number>>;
}

/** Whether a node has no problem: nft-proxy is healthy there, or is not supposed to run there. */
export function isFine({ state }: FleetNode): boolean {
  return state === "healthy" || state === "not-selected";
}

/** Compares nodes: the worst first, then by name. */
export function compareNodes(a: FleetNode, b: FleetNode): number {
  const keysOf = ({ node, state, metrics }: FleetNode) => {
    return [FLEET_STATES.indexOf(state), -(metrics?.driftRepairs ?? 0), -(metrics?.refused ?? 0), node];
  };
  return compareKeys(keysOf(a), keysOf(b));
}

/**
 * Maximum age of a verification, seconds: twice the default time between full comparisons, which a busy
 * cluster may delay.
 */
const VERIFIED_WITHIN = 7200;

/** Time after which a node is out of sync, seconds. In a busy cluster some change is always pending. */
const SYNCED_WITHIN = 5;

/** Maximum number of characters of a foreign answer that are shown. */
const SHOWN = 200;

/** Kinds of problems that others show, or that concern one Service alone: the node does its work. */
const STILL_SERVES: ReadonlySet<string> = new Set<ProblemKind>([
  "programming",
  "quarantine",
  "conflict",
  "ejected-endpoints",
]);

/** Fields of a FleetNode from /livez. */
type LivezFacts = Required<Pick<FleetNode, "outOfSyncFor" | "quarantined">> & Pick<FleetNode, "verifiedAgo">;

/**
 * Returns the state of a node from the answers of its /livez and /metrics through the API server's pod proxy.
 * @param livez undefined without an answer, like `metrics`
 */
export function nodeStatus(
  { node, name, trouble }: FleetPod,
  livez: HttpAnswer | undefined,
  metrics: HttpAnswer | undefined,
): FleetNode {
  const health = livez === undefined ? undefined : readHealth(livez);
  if (livez === undefined || !isOwnLivez(health)) {
    const reason = livez === undefined ? "no answer through the API server" : foreignAnswer(livez, health);
    const why = trouble === "" ? reason : `${trouble}; ${reason}`;
    return { node, pod: name, state: "unreachable", reason: why };
  }
  const { currentTime, lastVerified, outOfSyncSince, quarantinedServicePorts: quarantined = 0 } = health;
  const now = Date.parse(currentTime);
  const secondsSince = (time: string) => secondsBetween(Date.parse(time), now);
  const facts = {
    outOfSyncFor: outOfSyncSince === undefined ? 0 : secondsSince(outOfSyncSince),
    quarantined,
    ...(Date.parse(lastVerified) > 0 ? { verifiedAgo: secondsSince(lastVerified) } : {}),
  };
  return {
    node,
    pod: name,
    ...judge(livez.status, health, facts),
    ...facts,
    metrics: metrics?.status === 200 ? metricsOf(metrics.body) : undefined,
  };
}

function judge(
  status: number,
  { status: families = {}, reasons = [], problems = [] }: OwnHealth,
  { outOfSyncFor, quarantined, verifiedAgo }: LivezFacts,
): Pick<FleetNode, "state" | "reason"> {
  const verdicts = Object.values(families);
  const isNothingServed = verdicts.length > 0 && verdicts.every(({ healthy }) => healthy === false);
  const others = problems.filter(({ kind }) => !STILL_SERVES.has(kind));
  const reason = [...reasons, ...others.map(({ found }) => found)].join("; ");
  // A daemon answers 200 before its first sync, because a restart would not help.
  if (status !== 200 || isNothingServed)
    return { state: "unhealthy", reason: reason || `HTTP status ${status}` };
  if (reason !== "") return { state: "degraded", reason };
  if (outOfSyncFor > SYNCED_WITHIN) {
    return { state: "out-of-sync", reason: `the rules have been out of date for ${outOfSyncFor} s` };
  }
  if (quarantined > 0) {
    return { state: "quarantine", reason: `quarantined: ${counted(quarantined, "service port")}` };
  }
  if (verifiedAgo === undefined)
    return { state: "unverified", reason: "the kernel has not been verified yet" };
  if (verifiedAgo > VERIFIED_WITHIN)
    return { state: "unverified", reason: `last verified ${verifiedAgo} s ago` };
  return { state: "healthy" };
}

/**
 * Describes an answer that is not nft-proxy's but that of the API server, another service proxy or another
 * program.
 */
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

/** Parses the metrics of one nft-proxy in Prometheus' text format; undefined for those of another program. */
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
    ejected: of("endpoint_ejected").map(({ labels: { namespace, service, endpoint = "" } }) => {
      return { endpoint, service: `${namespace}/${service}` };
    }),
    ...lagOf(of("change_lag_seconds_bucket")),
  };
}

/** Maximum length of a line of metrics; ours are shorter. Those of another program take quadratic time. */
const LONGEST_LINE = 2000;

function sampleOf(line: string): Sample[] {
  if (line.length > LONGEST_LINE) return [];
  const [, name = "", labels = "", value] = /^(nft_proxy_\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  if (value === undefined) return [];
  const pairs = labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g);
  const texts = Array.from(pairs, ([, key = "", text = ""]) => [key, text]);
  return [{ name, labels: Object.fromEntries(texts), value: Number(value) }];
}

/** Returns the upper bound of the histogram bucket with the 99th percentile of the lag. */
function lagOf(buckets: readonly Sample[]): Pick<FleetMetrics, "lagP99" | "lagP99Above"> {
  const boundOf = ({ labels: { le } }: Sample) => (le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le));
  const sorted = buckets
    .map((bucket) => ({ bound: boundOf(bucket), value: bucket.value }))
    .sort((a, b) => a.bound - b.bound);
  const all = sorted.at(-1)?.value ?? 0;
  if (all === 0) return {};
  const bound = sorted.find(({ value }) => value >= 0.99 * all)?.bound ?? Number.POSITIVE_INFINITY;
  return Number.isFinite(bound) ? { lagP99: bound } : { lagP99Above: sorted.at(-2)?.bound ?? 0 };
}
