import { durationWords } from "../../base/duration.ts";
import { counted, listText, listTextOf } from "../../base/text.ts";
import type { ConfigState } from "../../config/reload.ts";
import {
  RESOURCE_NAMES,
  type ResourceName,
  type SourceErrorKind,
  type SourceState,
  unfollowedResources,
} from "../../kube/source.ts";
import type { EjectedEndpoint } from "../../model/ejected-endpoint.ts";
import { targetText } from "../../nft/elements.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import { frontendText } from "../../ruleset/keys.ts";
import type { DaemonProblem } from "../../socket/daemon-protocol.ts";
import type { Quarantine } from "../../sync/quarantine-changes.ts";
import { type HealthSnapshot, outOfDateText } from "./health.ts";

/** What a daemon knows when it looks for its problems. Times are milliseconds since 1970. */
export interface ProblemFacts
  extends Pick<HealthSnapshot, "lastSynced" | "pendingSince" | "problem" | "nodeName"> {
  readonly now: number;
  readonly config: ConfigState;
  readonly sources: Readonly<Record<ResourceName, SourceState>>;
  /** What to do about a failure of the source. */
  readonly remedy: (kind: SourceErrorKind) => string;
  readonly quarantined: Quarantine;
  /** Number of frontends that service ports want but others have. */
  readonly lostFrontends: number;
  readonly firstConflict: () => Conflict | undefined;
  /** The fields that our Node lost. */
  readonly nodeLacks: readonly string[];
  readonly ejected: readonly EjectedEndpoint[];
}

/** Time for which nothing is programmed, or the rules are out of date, before it is a fault. Milliseconds. */
const LONG = 60_000;

/** Returns what keeps a daemon from doing its work, or will: each with its cause and its remedy. */
export function problemsOf(facts: ProblemFacts): readonly DaemonProblem[] {
  const rows = [following, programming, configuration, restart, quarantine, conflict, node, ejections];
  return rows.flatMap((row) => row(facts) ?? []);
}

function following({ sources, now, remedy }: ProblemFacts): DaemonProblem | undefined {
  const names = unfollowedResources(sources, now);
  const [kind] = names.flatMap((name) => sources[name].failureKind ?? []);
  if (kind === undefined) return undefined;
  const reasons = [...new Set(names.map((name) => sources[name].failure))];
  const isKnown = names.every((name) => sources[name].synced);
  return {
    kind: "following",
    level: isKnown ? "warning" : "fault",
    found: `the daemon cannot follow ${listText(names)}: ${reasons.join("; ")}`,
    means: isKnown
      ? "the last known objects stay in use, and changes are not programmed"
      : "without a complete first list, nothing is programmed",
    action: remedy(kind),
  };
}

function programming(facts: ProblemFacts): DaemonProblem | undefined {
  const { now, lastSynced, pendingSince = now, problem, sources } = facts;
  const [since, isLong] = [now - pendingSince, now - pendingSince >= LONG];
  if (!isLong && (lastSynced === undefined || problem === "")) return undefined;
  const what = isLong ? outOfDateText(lastSynced, durationWords(since)) : "the last sync failed";
  const isFollowing = RESOURCE_NAMES.every((name) => sources[name].failure === "");
  return {
    kind: "programming",
    level: isLong ? "fault" : "warning",
    found: problem === "" ? what : `${what}: ${problem}`,
    means: "what changed since then is not in the kernel",
    ...(isFollowing && { action: "see its log; nft-proxy diff shows what the kernel lacks" }),
  };
}

function configuration({ config: { problem } }: ProblemFacts): DaemonProblem | undefined {
  if (problem === undefined) return undefined;
  return {
    kind: "configuration",
    level: "warning",
    found: `the changed configuration cannot be used: ${problem}`,
    means: "the daemon keeps the settings of before, and could not start with this configuration",
    action: "correct it (nft-proxy config --validate checks a file); it is read again when it changes",
  };
}

function restart({ config: { needRestart } }: ProblemFacts): DaemonProblem | undefined {
  if (needRestart.length === 0) return undefined;
  return {
    kind: "restart",
    level: "warning",
    found: `changed settings wait for a restart of the daemon: ${listText(needRestart)}`,
    action: "restart it, or take the change back; the rules stay in force meanwhile",
  };
}

function quarantine({ quarantined }: ProblemFacts): DaemonProblem | undefined {
  const [first] = quarantined;
  if (first === undefined) return undefined;
  const [key, reason] = first;
  const more = quarantined.size === 1 ? "" : ` and ${counted(quarantined.size - 1, "other service port")}`;
  return {
    kind: "quarantine",
    level: "fault",
    found: `quarantined: ${key}${more}: ${reason}`,
    means: "they have no rules, so that all others keep theirs",
    action: "nft-proxy explain NAMESPACE/NAME tells the reason of each; the status page lists all",
  };
}

function conflict({ lostFrontends, firstConflict }: ProblemFacts): DaemonProblem | undefined {
  const first = lostFrontends === 0 ? undefined : firstConflict();
  if (first === undefined) return undefined;
  const { frontend, winner, losers } = first;
  const more = lostFrontends === 1 ? "" : ` (${lostFrontends} such addresses in all)`;
  return {
    kind: "conflict",
    level: "warning",
    found: `${winner.name} has ${frontendText(frontend)}, which ${listTextOf(losers, ({ name }) => name)} wants, too${more}`,
    means: "the older Service keeps an address and port, and connections never reach the other",
    action: "give one of them another address or port; the status page lists all",
  };
}

function node({ nodeName, nodeLacks }: ProblemFacts): DaemonProblem | undefined {
  if (nodeLacks.length === 0) return undefined;
  return {
    kind: "node",
    level: "warning",
    found: `Node ${nodeName} lacks ${listText(nodeLacks)}`,
    means: "the daemon uses the last known values, as these may come back: a new Node has none at first",
    action: "if they do not come back, see why the kubelet or the cloud controller does not write them",
  };
}

function ejections({ ejected }: ProblemFacts): DaemonProblem | undefined {
  if (ejected.length === 0) return undefined;
  const nameOf = ({ target, services }: EjectedEndpoint) =>
    `${targetText(target)} (${listText(services, 2)})`;
  return {
    kind: "ejected-endpoints",
    level: "warning",
    found: `the daemon ejected ${listTextOf(ejected, nameOf)}`,
    means: "they do not answer this node, and get no new connections from it until they do",
    action: "check with nft-proxy fleet whether most nodes eject them, or only this one",
  };
}
