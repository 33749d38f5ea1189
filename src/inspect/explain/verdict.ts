import { listText, percentText } from "../../base/text.ts";
import { portEquivalent } from "../../features/frontends.ts";
import { familyOf } from "../../model/ip.ts";
import { ruleText } from "../../nft/text/rule-text.ts";
import type { ListName } from "../../ruleset/list-ids.ts";
import { causeOfChain } from "../../ruleset/refusal-causes.ts";
import { ORIGIN_NAMES } from "../../ruleset/service-view.ts";
import type { Outcome, RulePlace, Summary } from "../../trace/outcome.ts";
import { type Result, resultOf } from "../connection-result.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection, ExplainedEndpoint, Verdict } from "./explanation.ts";
import { featureReason } from "./feature-reason.ts";
import type { Match } from "./match.ts";
import { outsideReason } from "./outside-reasons.ts";
import {
  balancedReason,
  dependsOnClient,
  noEndpointReason,
  type Reason,
  sourceRangeReason,
  sourceRangesVerdict,
} from "./service-reasons.ts";
import { type RuleStep, stepRuleText } from "./steps.ts";
import { destinationText } from "./words.ts";

/** What is known about a connection: the input of its verdict and notes. */
export interface Evidence {
  readonly input: ExplainInput;
  readonly connection: Connection;
  readonly match: Match | undefined;
  /** Whether the connection may use endpoints of the whole cluster, or only those of this node. */
  readonly list: ListName;
  readonly endpoints: readonly ExplainedEndpoint[];
  readonly outcomes: readonly Outcome[];
  readonly summary: Summary;
}

/** The outcome of the connection, its cause, and the action to take. */
export function verdictOf(evidence: Evidence): Verdict {
  const result = resultOf(evidence.summary);
  const reason = withConflict(reasonOf(result, evidence), evidence);
  return dependsOnClient(result, evidence) ? sourceRangesVerdict(reason, evidence) : { result, ...reason };
}

function reasonOf(result: Result, evidence: Evidence): Reason {
  const { connection, match, endpoints, input } = evidence;
  if (result === "not-understood") return notUnderstoodReason(evidence);
  if (!input.objectsKnown && result !== "served" && result !== "varies")
    return unknownReason(result, evidence);
  switch (result) {
    case "served":
      return (
        (match === undefined ? featureReason({ ...connection, isServed: true }, input) : undefined) ??
        balancedReason(connection, match, endpoints, input.cache)
      );
    case "varies":
      return variesReason(evidence);
    case "not-handled":
      return outsideReason(connection, input);
    case "refused":
    case "dropped":
      return stoppedReason(result, evidence);
  }
}

function variesReason({ summary }: Evidence): Reason {
  const { refused, dropped } = summary;
  return {
    cause: "rules",
    message: `a random choice decides: ${percentText(refused)} refused, ${percentText(dropped)} dropped, the rest is delivered`,
    action: "nft-proxy does not make such rules: compare the kernel with the desired state",
    commands: ["nft-proxy diff"],
  };
}

/** The cause of a refusal or drop, from the chain that decided it and the objects. */
function stoppedReason(result: "refused" | "dropped", evidence: Evidence): Reason {
  const { connection, match, outcomes, input } = evidence;
  const rule = decidingRule(outcomes);
  const cause = rule && causeOfChain(portEquivalent(rule.chain), result === "dropped");
  if (rule === undefined || cause === "unserved-port" || cause === "no-service")
    return outsideReason(connection, input);
  if (cause === "source-ranges") return sourceRangeReason(evidence);
  if (!isDesired(rule, connection, input)) return foreignRuleReason(rule);
  if (match !== undefined) return noEndpointReason(match, input);
  const where = result === "dropped" ? "on this node" : "anywhere";
  return {
    cause: "no-endpoints",
    message: `the rules have no endpoint for ${destinationText(connection)} ${where}, and no Service explains it`,
    action: "compare the kernel with the desired state",
    commands: ["nft-proxy diff"],
  };
}

/** The rule that stopped the packet; undefined if none did. */
function decidingRule(outcomes: readonly Outcome[]): RuleStep | undefined {
  const last = outcomes[0]?.steps.at(-1);
  return last?.kind === "rule" ? last : undefined;
}

/** The reason for a rule of nft-proxy's table that is not understood: nft-proxy makes none of these. */
function notUnderstoodReason({ outcomes }: Evidence): Reason {
  const [rule] = outcomes.flatMap((outcome) => (outcome.kind === "not-understood" ? outcome.rules : []));
  if (rule === undefined) throw new Error("all rules are understood");
  return { ...foreignRuleReason(rule), cause: "not-understood" };
}

/** Whether the desired state has a rule anywhere in its chain. */
function isDesired(step: RuleStep, { to }: Connection, { state }: ExplainInput): boolean {
  const rules = state.ruleset[familyOf(to)]?.chains.get(step.chain)?.rules ?? [];
  return rules.some((desired) => ruleText(desired) === stepRuleText(step));
}

/** The reason for a rule that other software added to nft-proxy's table. */
function foreignRuleReason(step: RulePlace): Reason {
  return {
    cause: "rules",
    message: `the chain ${step.chain} of nft-proxy's table has a rule that nft-proxy does not make: ${stepRuleText(step)}`,
    action: "nft-proxy run removes it; find the program that adds it, and look for other differences",
    commands: ["nft-proxy diff"],
  };
}

/** The reason without objects: the kernel's rules show the outcome, but not its cause. */
function unknownReason(
  result: "not-handled" | "refused" | "dropped",
  { connection, outcomes }: Evidence,
): Reason {
  const rule = decidingRule(outcomes);
  const by = rule === undefined ? "" : ` by ${rule.chain} (${stepRuleText(rule)})`;
  const what = result === "not-handled" ? "is not translated by the kernel's rules" : `is ${result}${by}`;
  return {
    cause: "unknown",
    message: `${destinationText(connection)} ${what}; the reason is unknown: objects unavailable`,
    action:
      "run the command again with objects: on a host with the daemon, with a kubeconfig, or with --from PATH",
  };
}

/** Names the Services that do not get the frontend: users see these fail. */
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
    action: `give each Service its own; ${losers[0]?.service.name} gets it if ${port.service.name} releases it`,
  };
}
