import { type HttpAnswer, isOwnLivez, type ProxyHealth, readHealth } from "../http-answer.ts";
import { diagnostic, type HostDiagnostic } from "./diagnostic.ts";

/** The state of the daemon that should run on this host, from its two servers. */
export interface DaemonFact {
  /** Its socket; absent where no daemon of this network namespace answers there. */
  readonly socket?: DaemonSocketFact;
  /** Why something that listens on its socket gives no usable answer, one sentence; absent where nothing does. */
  readonly socketProblem?: string;
  readonly health: HealthFact;
}

/** A daemon that answers on its socket. */
export interface DaemonSocketFact {
  readonly path: string;
  /** Why its last sync failed; absent after a success. */
  readonly problem?: string;
  /** The resources that it does not follow, with the reasons; absent when it follows all. */
  readonly unfollowed?: string;
}

/** The state of the health checks; `url` is where they were asked. */
export type HealthFact =
  | { readonly kind: "off" }
  | { readonly kind: "silent"; readonly url: string; readonly reason: string }
  | { readonly kind: "answers"; readonly url: string; readonly healthz: HttpAnswer; readonly livez: HttpAnswer };

type Silent = HealthFact & { readonly kind: "silent" };
type Answers = HealthFact & { readonly kind: "answers" };

const LOOK = "look into its log, and at nft-proxy diff";

/** Judges whether a daemon runs, and how it fares. `hasTables`: our tables are in the kernel; undefined when not known. */
export function judgeDaemon(
  { socket, socketProblem, health }: DaemonFact,
  hasTables: boolean | undefined,
): HostDiagnostic {
  if (socketProblem !== undefined && health.kind !== "answers") return judgeHanging(socketProblem, health);
  switch (health.kind) {
    case "off": {
      const off = "its health checks are switched off";
      if (socket === undefined) return judgeAbsence(`no daemon answers on its socket, and ${off}`, hasTables);
      return judgeSync(`the daemon answers at ${socket.path}; ${off}`, socket);
    }
    case "silent":
      return judgeSilence(health, socket, hasTables);
    case "answers":
      return judgeAnswers(health, socket, hasTables);
  }
}

function judgeHanging(problem: string, health: HealthFact): HostDiagnostic {
  const silent = health.kind === "silent" ? `, and its health checks do not answer at ${health.url}` : "";
  return diagnostic(
    "daemon",
    "fault",
    `${problem}${silent}`,
    "the rules stay as they are while it hangs",
    "keep its log, then restart it",
  );
}

function judgeAbsence(found: string, hasTables: boolean | undefined): HostDiagnostic {
  if (!hasTables) return diagnostic("daemon", "ok", found);
  return diagnostic(
    "daemon",
    "warning",
    found,
    "rules of nft-proxy are in the kernel, and no daemon keeps them current",
    "start the daemon again (its log says why it ended), or remove its rules with nft-proxy cleanup",
  );
}

function judgeSilence(
  { url, reason }: Silent,
  socket: DaemonSocketFact | undefined,
  hasTables: boolean | undefined,
): HostDiagnostic {
  if (socket === undefined) return judgeAbsence(`no daemon answers at ${url} (${reason})`, hasTables);
  return diagnostic(
    "daemon",
    "warning",
    `the daemon answers at ${socket.path}, but its health checks do not at ${url} (${reason})`,
    "the kubelet restarts a pod that does not answer, and load balancers avoid this node",
    "look into its log for why it cannot listen there",
  );
}

function judgeAnswers(
  { url, healthz, livez }: Answers,
  socket: DaemonSocketFact | undefined,
  hasTables: boolean | undefined,
): HostDiagnostic {
  const body = readHealth(healthz);
  if (body === undefined) {
    const found = `another program than a service proxy answers at ${url} (HTTP ${healthz.status})`;
    const means = "load balancers that ask there are misled";
    return diagnostic("daemon", "warning", found, means, "choose another --healthz-bind-address");
  }
  if (!isOwnLivez(readHealth(livez))) return judgeOtherProxy(url, socket, hasTables);
  const found = `the daemon at ${url} ${lastSyncText(body)}`;
  if (hasTables === false) return judgeMissingTables(found);
  return judgeHealth(found, body, { healthz, livez }, socket);
}

/** kube-proxy has the port of the health checks. */
function judgeOtherProxy(
  url: string,
  socket: DaemonSocketFact | undefined,
  hasTables: boolean | undefined,
): HostDiagnostic {
  const found = `another service proxy, such as kube-proxy, answers at ${url}`;
  if (socket !== undefined) {
    const both = `${found}, beside the daemon at ${socket.path}`;
    const means = "both program rules, and load balancers are told of the other one's health";
    return diagnostic("daemon", "warning", both, means, "stop kube-proxy on this node");
  }
  if (!hasTables) {
    return diagnostic("daemon", "warning", found, undefined, "stop kube-proxy before nft-proxy takes over its ports");
  }
  const means = "tables of nft-proxy are in the kernel as well; without its daemon they are stale, and still translate";
  const action = "if nft-proxy runs here, stop kube-proxy; if it does not, remove its rules with nft-proxy cleanup";
  return diagnostic("daemon", "warning", found, means, action);
}

function judgeMissingTables(found: string): HostDiagnostic {
  return diagnostic(
    "daemon",
    "warning",
    `${found}, and there are no tables of nft-proxy`,
    "it has not programmed any rules yet, runs with --dry-run, or another program has just deleted them",
    "ask again in some seconds; if they stay away, look into its log",
  );
}

function judgeHealth(
  found: string,
  { reasons = [] }: ProxyHealth,
  { healthz, livez }: Pick<Answers, "healthz" | "livez">,
  socket: DaemonSocketFact | undefined,
): HostDiagnostic {
  const why = reasons.join("; ");
  if (livez.status !== 200) {
    return diagnostic("daemon", "fault", found, `it is not healthy: ${why || "it gives no reason"}`, LOOK);
  }
  if (socket?.problem !== undefined || socket?.unfollowed !== undefined) return judgeSync(found, socket);
  if (healthz.status !== 200) {
    const means = `load balancers are told to avoid this node: ${why || "it gives no reason"}`;
    return diagnostic("daemon", "warning", found, means);
  }
  // A family that the kernel refuses is no reason for load balancers to avoid the node.
  return why === "" ? diagnostic("daemon", "ok", found) : diagnostic("daemon", "warning", found, why, LOOK);
}

function judgeSync(found: string, { problem, unfollowed }: DaemonSocketFact): HostDiagnostic {
  if (problem === undefined && unfollowed !== undefined) {
    const means = `it does not follow the cluster, and keeps the last known objects: ${unfollowed}`;
    const action = "see that this node reaches the API server, and that its credentials may list and watch these";
    return diagnostic("daemon", "warning", found, means, action);
  }
  if (problem === undefined) return diagnostic("daemon", "ok", found);
  const means = `its last sync failed, and the kernel lacks changes: ${problem}`;
  return diagnostic("daemon", "warning", found, means, LOOK);
}

/** `last synced 12 s ago`, of the family that was synced first; families that are not served have never been. */
function lastSyncText({ currentTime, status = {} }: ProxyHealth): string {
  const times = Object.values(status).map(({ lastUpdated }) => Date.parse(lastUpdated));
  // Go's zero time, for never.
  const synced = times.filter((time) => time > 0);
  if (synced.length === 0) return "has not synced yet";
  return `last synced ${Math.max(0, Math.round((Date.parse(currentTime) - Math.min(...synced)) / 1000))} s ago`;
}
