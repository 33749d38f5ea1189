import { CLUSTER_IPS_CHECK } from "../../ruleset/base-chains.ts";
import { parseChainName } from "../../ruleset/chain-names.ts";
import { ORIGIN_NAMES } from "../../ruleset/view-words.ts";
import type { Outcome, Summary } from "../../trace/outcome.ts";
import { balancedReason } from "./balanced-reason.ts";
import { noEndpointReason, type Reason } from "./endpoint-causes.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection, ExplainedEndpoint, Result, Verdict } from "./explanation.ts";
import type { Match } from "./match.ts";
import { outsideReason } from "./outside-causes.ts";
import { destinationText, listText } from "./words.ts";

/** The input of a verdict. */
export interface Evidence {
  readonly connection: Connection;
  readonly match: Match | undefined;
  /** Whether it may go to endpoints of the whole cluster, or of this node only. */
  readonly list: "cluster" | "local";
  readonly endpoints: readonly ExplainedEndpoint[];
  readonly outcomes: readonly Outcome[];
  readonly summary: Summary;
}

/** The outcome of the connection, its cause, and the action to take. */
export function verdictOf(evidence: Evidence, input: ExplainInput): Verdict {
  const result = resultOf(evidence.summary);
  const reason = reasonOf(result, evidence, input);
  return { result, ...withConflict(reason, evidence) };
}

/** The outcome of an evaluation. */
function resultOf({ refused, dropped, destinations }: Summary): Result {
  if (destinations.length === 0) return dropped === 0 ? "refused" : refused === 0 ? "dropped" : "varies";
  if (refused + dropped > 0) return "varies";
  if (destinations.every(({ translated }) => translated)) return "served";
  return destinations.some(({ translated }) => translated) ? "varies" : "not-handled";
}

function reasonOf(result: Result, evidence: Evidence, input: ExplainInput): Reason {
  const { connection, match, endpoints } = evidence;
  switch (result) {
    case "served":
      return balancedReason(connection, match, endpoints, input.cache);
    case "varies":
      return variesReason(evidence);
    case "not-handled":
      return outsideReason(connection, input);
    case "refused":
    case "dropped":
      return stoppedReason(result, evidence, input);
  }
}

function variesReason({ summary }: Evidence): Reason {
  const percent = (share: number) => `${Math.round(share * 100)} %`;
  const { refused, dropped } = summary;
  return {
    cause: "rules",
    message: `chance decides: ${percent(refused)} refused, ${percent(dropped)} dropped, the rest goes on`,
    action: "these are not the rules that we make: see nft-proxy diff",
  };
}

/** The cause of a refusal or drop, from the chain that decided it and the objects. */
function stoppedReason(result: "refused" | "dropped", evidence: Evidence, input: ExplainInput): Reason {
  const { connection, match, outcomes } = evidence;
  const chain = decider(outcomes);
  const role = parseChainName(chain);
  if (role?.kind === "firewall") return sourceRangeReason(evidence);
  if (chain === CLUSTER_IPS_CHECK || chain === "") return outsideReason(connection, input);
  if (match !== undefined) return noEndpointReason(match, input);
  const where = result === "dropped" ? "on this node" : "anywhere";
  return {
    cause: "no-endpoints",
    message: `by the rules, the Service of ${destinationText(connection)} has no endpoint ${where}`,
    action: "ask again with the objects: --from PATH, or a kubeconfig",
  };
}

/** The chain of the rule that ended the packet; "" when it was none. */
function decider(outcomes: readonly Outcome[]): string {
  const last = outcomes[0]?.steps.at(-1);
  return last?.kind === "rule" ? last.chain : "";
}

function sourceRangeReason({ connection, match }: Evidence): Reason {
  const of = match === undefined ? "" : ` of Service ${rangesText(match)}`;
  return {
    cause: "source-ranges",
    message: `${connection.from.address} is in none of the loadBalancerSourceRanges${of}`,
    action: "add its address to spec.loadBalancerSourceRanges if it is to be let in",
  };
}

function rangesText({ port: { service, family } }: Match): string {
  return `${service.name} (${listText(service.loadBalancerSourceRanges[family])})`;
}

/** Names the Services that lost the frontend: they are the ones that seem broken. */
function withConflict(reason: Reason, { match }: Evidence): Reason {
  if (match === undefined || match.losers.length === 0) return reason;
  const { port, frontend, losers } = match;
  const names = listText(losers.map(({ service }) => service.name));
  const what =
    frontend.origin === "node-port"
      ? `NodePort ${frontend.port}`
      : `${ORIGIN_NAMES[frontend.origin]} ${frontend.address}`;
  return {
    cause: "conflict",
    message: `${what} belongs to Service ${port.service.name}, the oldest that wants it, not to ${names}; ${reason.message}`,
    action: `give each Service its own; ${losers[0]?.service.name} takes over when ${port.service.name} lets go`,
  };
}
