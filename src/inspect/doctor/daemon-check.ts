import type { DaemonProblem } from "../../socket/daemon-protocol.ts";
import { type HttpAnswer, isOwnLivez, type ProxyHealth, readHealth } from "../http-answer.ts";
import { type HostFinding, judge, type Row } from "./finding.ts";
import type { HealthFact } from "./host-facts.ts";

/** The state of the daemon that should run on this host, from its socket and its health checks. */
export interface DaemonFact {
  /** The daemon on its socket; absent if no daemon of this network namespace answers there. */
  readonly socket?: DaemonSocketFact;
  /**
   * Why a listener on the socket gives no usable answer, one sentence; absent if there is no such listener.
   */
  readonly socketProblem?: string;
  readonly health: HealthFact;
}

/** A daemon that answers on its socket. */
export interface DaemonSocketFact {
  readonly path: string;
  /** Whether it applies nothing. */
  readonly dryRun: boolean;
  readonly problems: readonly DaemonProblem[];
}

/**
 * Checks whether a daemon runs and works.
 * @param hasTables whether our tables are in the kernel; undefined if unknown
 */
export function judgeDaemon(fact: DaemonFact, hasTables: boolean | undefined): HostFinding[] {
  const { health } = fact;
  const answers = health.kind === "answers" ? health : undefined;
  const { socket } = fact;
  const own = judge(ROWS, {
    ...fact,
    hasTables,
    url: health.kind === "off" ? "" : health.url,
    isOff: health.kind === "off",
    silence: health.kind === "silent" ? health.reason : undefined,
    answers,
    body: answers && readHealth(answers.healthz),
    isOther: answers !== undefined && !isOwnLivez(readHealth(answers.livez)),
  });
  const known = (socket?.problems ?? []).map(({ kind, ...problem }) => ({ check: kind, ...problem }));
  return [...own, ...known];
}

interface Facts extends DaemonFact {
  readonly hasTables: boolean | undefined;
  /** URL of the health checks, "" if they are off. */
  readonly url: string;
  readonly isOff: boolean;
  /** Why the health checks do not answer; absent if they do, and if they are off. */
  readonly silence: string | undefined;
  readonly answers: { readonly healthz: HttpAnswer; readonly livez: HttpAnswer } | undefined;
  /** Contents of /healthz; undefined if another program than a service proxy answers. */
  readonly body: ProxyHealth | undefined;
  /** Whether another service proxy answers the health checks. */
  readonly isOther: boolean;
}

const LOOK = "check its log and the output of nft-proxy diff";
const isAbsent = ({ socket, answers }: Facts) => socket === undefined && answers === undefined;

const ROWS: readonly Row<Facts>[] = (
  [
    {
      level: "fault",
      when: ({ socketProblem, answers }) => socketProblem !== undefined && answers === undefined,
      found: ({ socketProblem, silence, url }) =>
        `${socketProblem}${silence === undefined ? "" : `, and its health checks do not answer at ${url}`}`,
      means: "rules are not updated while it hangs",
      action: "save its log, then restart it",
    },
    { level: "ok", when: (facts) => isAbsent(facts) && !facts.hasTables, found: absenceText },
    {
      level: "warning",
      when: isAbsent,
      found: absenceText,
      means: "rules of nft-proxy are in the kernel, and no daemon updates them",
      action:
        "start the daemon again (see its log for why it ended), or remove its rules with nft-proxy cleanup",
    },
    {
      level: "warning",
      when: ({ silence }) => silence !== undefined,
      found: ({ socket, url, silence }) =>
        `the daemon answers at ${socket?.path}, but its health checks do not at ${url} (${silence})`,
      means: "the kubelet restarts a pod that does not answer, and load balancers avoid this node",
      action: "see its log for why it cannot listen there",
    },
    {
      level: "warning",
      when: ({ answers, body }) => answers !== undefined && body === undefined,
      found: ({ answers, url }) =>
        `another program than a service proxy answers at ${url} (HTTP ${answers?.healthz.status})`,
      means: "load balancers that check this address get a wrong answer",
      action: "choose another --healthz-bind-address",
    },
    {
      level: "warning",
      when: ({ isOther, socket }) => isOther && socket !== undefined,
      found: (facts) => `${otherProxyText(facts)}, alongside the daemon at ${facts.socket?.path}`,
      means: "both program rules, and load balancers see the health of the other one",
      action: "stop kube-proxy on this node",
    },
    {
      level: "warning",
      when: ({ isOther, hasTables }) => isOther && !hasTables,
      found: otherProxyText,
      action: "stop kube-proxy before nft-proxy takes over its ports",
    },
    {
      level: "warning",
      when: ({ isOther }) => isOther,
      found: otherProxyText,
      means:
        "tables of nft-proxy are also in the kernel; without its daemon they are out of date, but still translate",
      action:
        "if nft-proxy runs here, stop kube-proxy; if it does not, remove its rules with nft-proxy cleanup",
    },
    {
      level: "ok",
      when: ({ socket, hasTables }) => socket?.dryRun === true && hasTables === false,
      found: (facts) => `${daemonText(facts)}; it runs with --dry-run and applies nothing`,
    },
    {
      level: "warning",
      when: ({ answers, hasTables, socket }) =>
        answers !== undefined &&
        hasTables === false &&
        !socket?.problems.some(({ level }) => level === "fault"),
      found: (facts) => `${daemonText(facts)}, and there are no tables of nft-proxy`,
      means: ({ socket }) =>
        socket === undefined
          ? "it has not programmed any rules yet, runs with --dry-run, or another program has just deleted them"
          : "it has not programmed any rules yet, or another program has just deleted them",
      action: "run doctor again in some seconds; if there are still none, check its log",
    },
    {
      level: "fault",
      when: ({ answers }) => answers !== undefined && answers.livez.status !== 200,
      found: daemonText,
      means: (facts) => `it is not healthy: ${reasonsText(facts) || "no reason given"}`,
      action: LOOK,
    },
    {
      level: "warning",
      when: ({ answers }) => answers !== undefined && answers.healthz.status !== 200,
      found: daemonText,
      means: (facts) =>
        `load balancers are told to avoid this node: ${reasonsText(facts) || "no reason given"}`,
    },
    {
      // Load balancers need not avoid the node for these.
      level: "warning",
      when: (facts) => reasonsText(facts) !== "",
      found: daemonText,
      means: reasonsText,
      action: LOOK,
    },
    { level: "ok", found: daemonText },
  ] satisfies readonly Omit<Row<Facts>, "check">[]
).map((row) => ({ check: "daemon", ...row }));

function absenceText({ silence, url }: Facts): string {
  if (silence !== undefined) return `no daemon answers at ${url} (${silence})`;
  return "no daemon answers on its socket, and its health checks are switched off";
}

function otherProxyText({ url }: Facts): string {
  return `another service proxy, such as kube-proxy, answers at ${url}`;
}

function daemonText({ isOff, socket, url, body }: Facts): string {
  if (isOff) return `the daemon answers at ${socket?.path}; its health checks are switched off`;
  return `the daemon at ${url} ${body === undefined ? "answers" : lastSyncText(body)}`;
}

/** Why the health checks say so, without the problems, which are findings of their own. */
function reasonsText({ body, socket }: Facts): string {
  const known = new Set(socket?.problems.map(({ found }) => found));
  return body?.reasons?.filter((reason) => !known.has(reason)).join("; ") ?? "";
}

/**
 * `last synced 12 s ago`, for the family with the oldest sync. Families that are not served are never synced.
 */
function lastSyncText({ currentTime, status = {} }: ProxyHealth): string {
  const times = Object.values(status).map(({ lastUpdated }) => Date.parse(lastUpdated));
  // Go's zero time means never.
  const synced = times.filter((time) => time > 0);
  if (synced.length === 0) return "has not synced yet";
  return `last synced ${Math.max(0, Math.round((Date.parse(currentTime) - Math.min(...synced)) / 1000))} s ago`;
}
