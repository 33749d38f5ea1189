import { secondsBetween } from "../../base/duration.ts";
import type { DaemonProblem } from "../../socket/daemon-protocol.ts";
import { isOwnLivez, type ProxyHealth, readHealth } from "../http-answer.ts";
import { type Finding, fault, type HostFinding, named, ok, warning } from "./finding.ts";
import type { HealthFact } from "./host-facts.ts";

/** The state of the daemon that should run on this host, from its socket and its health checks. */
export interface DaemonFact {
  /** The daemon on its socket; absent if no daemon of this network namespace answers there. */
  readonly socket?: {
    readonly path: string;
    /** Whether it applies nothing. */
    readonly dryRun: boolean;
    readonly problems: readonly DaemonProblem[];
  };
  /**
   * Why a listener on the socket gives no usable answer, one sentence; absent if there is no such listener.
   */
  readonly socketProblem?: string;
  readonly health: HealthFact;
  /** Whether our tables are in the kernel; undefined if unknown: then no finding is about them. */
  readonly hasTables: boolean | undefined;
}

/** Checks whether a daemon runs and works. */
export function judgeDaemon(fact: DaemonFact): HostFinding[] {
  const { socket, health } = fact;
  const finding = health.kind === "answers" ? judgeAnswers(health, fact) : judgeSilence(health, fact);
  const problems = (socket?.problems ?? []).map(({ kind, ...problem }) => ({ check: kind, ...problem }));
  return [...named("daemon", [finding]), ...problems];
}

const LOOK = "check its log and the output of nft-proxy diff";
const DRY_RUN = "it runs with --dry-run and applies nothing";

/** Judges a daemon whose health checks do not answer, or are off. */
function judgeSilence(
  health: Exclude<HealthFact, { readonly kind: "answers" }>,
  { socket, socketProblem, hasTables }: DaemonFact,
): Finding {
  if (socketProblem !== undefined) {
    const more = health.kind === "off" ? "" : `, and its health checks do not answer at ${health.url}`;
    const means = "rules are not updated while it hangs";
    return fault(`${socketProblem}${more}`, means, "save its log, then restart it");
  }
  if (socket === undefined) {
    const found =
      health.kind === "off"
        ? "no daemon answers on its socket, and its health checks are switched off"
        : `no daemon answers at ${health.url} (${health.reason})`;
    if (hasTables !== true) return ok(found);
    return warning(
      found,
      "rules of nft-proxy are in the kernel, and no daemon updates them",
      "start the daemon again (see its log for why it ended), or remove its rules with nft-proxy cleanup",
    );
  }
  if (health.kind === "silent")
    return warning(
      `the daemon answers at ${socket.path}, but its health checks do not at ${health.url} (${health.reason})`,
      "the kubelet restarts a pod that does not answer, and load balancers avoid this node",
      "see its log for why it cannot listen there",
    );
  const found = `the daemon answers at ${socket.path}; its health checks are switched off`;
  return ok(socket.dryRun && hasTables === false ? `${found}; ${DRY_RUN}` : found);
}

function judgeAnswers(
  { url, healthz, livez }: Extract<HealthFact, { readonly kind: "answers" }>,
  fact: DaemonFact,
): Finding {
  const { socket, hasTables } = fact;
  const body = readHealth(healthz);
  if (body === undefined)
    return warning(
      `another program than a service proxy answers at ${url} (HTTP ${healthz.status})`,
      "load balancers that check this address get a wrong answer",
      "choose another --healthz-bind-address",
    );
  if (!isOwnLivez(readHealth(livez))) return judgeOtherProxy(url, fact);
  const found = `the daemon at ${url} ${lastSyncText(body)}`;
  if (socket?.dryRun && hasTables === false) return ok(`${found}; ${DRY_RUN}`);
  // Without its socket, it is unknown whether it runs with --dry-run.
  if (hasTables === false && !socket?.problems.some(({ level }) => level === "fault"))
    return warning(
      `${found}, and there are no tables of nft-proxy`,
      `it has not programmed any rules yet, ${socket === undefined ? "runs with --dry-run, " : ""}or another program has just deleted them`,
      "run doctor again in some seconds; if there are still none, check its log",
    );
  const reasons = reasonsText(body, socket);
  const why = reasons || "no reason given";
  if (livez.status !== 200) return fault(found, `it is not healthy: ${why}`, LOOK);
  if (healthz.status !== 200) return warning(found, `load balancers are told to avoid this node: ${why}`);
  // Load balancers need not avoid the node for these.
  return reasons === "" ? ok(found) : warning(found, reasons, LOOK);
}

/** Judges another service proxy that answers instead of the daemon. */
function judgeOtherProxy(url: string, { socket, hasTables }: DaemonFact): Finding {
  const found = `another service proxy, such as kube-proxy, answers at ${url}`;
  if (socket !== undefined)
    return warning(
      `${found}, alongside the daemon at ${socket.path}`,
      "both program rules, and load balancers see the health of the other one",
      "stop kube-proxy on this node",
    );
  if (hasTables !== true)
    return warning(found, undefined, "stop kube-proxy before nft-proxy takes over its ports");
  return warning(
    found,
    "tables of nft-proxy are also in the kernel; without its daemon they are out of date, but still translate",
    "if nft-proxy runs here, stop kube-proxy; if it does not, remove its rules with nft-proxy cleanup",
  );
}

/** Why the health checks say so, without the problems, which are findings of their own. */
function reasonsText({ reasons = [] }: ProxyHealth, socket: DaemonFact["socket"]): string {
  const known = new Set(socket?.problems.map(({ found }) => found));
  return reasons.filter((reason) => !known.has(reason)).join("; ");
}

/**
 * `last synced 12 s ago`, for the family with the oldest sync. Families that are not served are never synced.
 */
function lastSyncText({ currentTime, status = {} }: ProxyHealth): string {
  const times = Object.values(status).map(({ lastUpdated }) => Date.parse(lastUpdated));
  // Go's zero time means never.
  const synced = times.filter((time) => time > 0);
  if (synced.length === 0) return "has not synced yet";
  return `last synced ${secondsBetween(Math.min(...synced), Date.parse(currentTime))} s ago`;
}
