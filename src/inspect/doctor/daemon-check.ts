import type { HostDiagnostic } from "./diagnostic.ts";

/** The answer of a health endpoint. */
export interface HealthAnswer {
  readonly status: number;
  readonly body: string;
}

/** The state of the daemon that should run on this host, as its health endpoints report it, or its socket. */
export type DaemonFact =
  /** `url` is where it was asked: a URL, or the path of its socket. */
  | { readonly kind: "silent"; readonly url: string; readonly reason: string }
  /** It answers on its socket, and its health checks are switched off. */
  | { readonly kind: "unchecked"; readonly socket: string; readonly problem?: string }
  | {
      readonly kind: "answers";
      readonly url: string;
      readonly healthz: HealthAnswer;
      readonly livez: HealthAnswer;
      /** Why its last sync failed, from its socket; absent after a success, and when the socket does not answer. */
      readonly problem?: string;
    };

/** The parts of a health answer that are read; times are RFC 3339. */
interface HealthBody {
  readonly currentTime: string;
  readonly status: Readonly<Record<string, { readonly lastUpdated: string }>>;
  readonly reasons?: readonly string[];
}

/** How a running daemon does. `hasTables`: our tables are in the kernel; undefined when that is not known. */
export function judgeDaemon(fact: DaemonFact, hasTables: boolean | undefined): HostDiagnostic {
  switch (fact.kind) {
    case "silent":
      return judgeSilence(fact, hasTables);
    case "unchecked":
      return judgeSync(`the daemon answers at ${fact.socket}; its health checks are switched off`, fact.problem);
    case "answers":
      return judgeAnswers(fact, hasTables);
  }
}

function judgeSilence(
  { url, reason }: DaemonFact & { kind: "silent" },
  hasTables: boolean | undefined,
): HostDiagnostic {
  const found = `no daemon answers at ${url} (${reason})`;
  if (!hasTables) return { check: "daemon", level: "ok", found };
  return {
    check: "daemon",
    level: "warning",
    found,
    means: "rules of nft-proxy are in the kernel, and no daemon keeps them current",
    action: "start the daemon again (its log says why it ended), or remove its rules with nft-proxy cleanup",
  };
}

function judgeAnswers(
  { url, healthz, livez, problem }: DaemonFact & { kind: "answers" },
  hasTables: boolean | undefined,
): HostDiagnostic {
  const body = readBody(healthz.body);
  if (body === undefined) {
    const means = "another program has the port of the health checks";
    const found = `what answers at ${url} is no service proxy (HTTP ${healthz.status})`;
    return { check: "daemon", level: "warning", found, means, action: "choose another --healthz-bind-address" };
  }
  if (hasTables === false) {
    return {
      check: "daemon",
      level: "warning",
      found: `a service proxy answers at ${url}, and there are no tables of nft-proxy`,
      means: "it is probably kube-proxy, or an nft-proxy that has not synced yet",
      action: "stop kube-proxy before nft-proxy takes over its ports",
    };
  }
  const reasons = (body.reasons ?? []).join("; ") || "it gives no reason";
  const found = `the daemon at ${url} ${lastSync(body)}`;
  if (livez.status !== 200) {
    const means = `it is not healthy: ${reasons}`;
    return { check: "daemon", level: "fault", found, means, action: "look into its log, and at nft-proxy diff" };
  }
  if (problem !== undefined || healthz.status === 200) return judgeSync(found, problem);
  return { check: "daemon", level: "warning", found, means: `load balancers are told to avoid this node: ${reasons}` };
}

function judgeSync(found: string, problem: string | undefined): HostDiagnostic {
  if (problem === undefined) return { check: "daemon", level: "ok", found };
  const means = `its last sync failed, and the kernel lacks changes: ${problem}`;
  return { check: "daemon", level: "warning", found, means, action: "look into its log, and at nft-proxy diff" };
}

function readBody(text: string): HealthBody | undefined {
  try {
    const body = JSON.parse(text) as Partial<HealthBody> | null;
    return typeof body?.currentTime === "string" && typeof body.status === "object" ? (body as HealthBody) : undefined;
  } catch {
    return undefined;
  }
}

function lastSync({ currentTime, status }: HealthBody): string {
  const times = Object.values(status).map(({ lastUpdated }) => Date.parse(lastUpdated));
  const oldest = Math.min(...times);
  // Go's zero time, for never.
  if (!Number.isFinite(oldest) || oldest < 0) return "has not synced yet";
  return `last synced ${Math.max(0, Math.round((Date.parse(currentTime) - oldest) / 1000))} s ago`;
}
