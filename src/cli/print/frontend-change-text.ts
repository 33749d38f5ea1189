import { FAMILY_NAMES, type Family } from "../../base/family.ts";
import { counted, socketText } from "../../base/text.ts";
import type { FrontendChange } from "../../inspect/diff/frontend-change.ts";
import { splitParts, targetText, verdictTarget } from "../../nft/elements.ts";
import {
  DROP_CHAIN,
  EXTERNAL_LOCAL,
  MARK_FOR_MASQUERADE,
  parseChainName,
  REJECT_CHAIN,
} from "../../ruleset/chain-names.ts";
import { type ElementChange, type RulesetDiff, type TargetsChange, targetsKey } from "../../ruleset/ruleset-diff.ts";
import { NOT_BALANCED } from "../../ruleset/service-port-rules.ts";
import { FIREWALL_IPS, frontendMapOf } from "../../ruleset/sets.ts";
import { ORIGIN_NAMES } from "../../ruleset/view-words.ts";

/** A frontend's change in lines: `+ 10.96.0.10:53/udp: 2 endpoints`, then the endpoints that were added or removed. */
export function frontendLines({ family, key, changes }: FrontendChange, targets: RulesetDiff["targets"]): string[] {
  const outcomes = changes.filter(({ set }) => isOutcomeMap(set));
  const isOutcome = (verdict: string | undefined) => verdict !== undefined && verdict !== NOT_BALANCED;
  const before = outcomes.map((change) => change.before).find(isOutcome);
  const after = outcomes.map((change) => change.after).find(isOutcome);
  const isNew = before === undefined && after !== undefined;
  const isGone = before !== undefined && after === undefined;
  const targetsChange = targets.get(targetsKey(family, key));
  const facts = [...outcomeFacts(before, after), ...changes.flatMap(otherFacts(isNew || isGone))];
  return [
    `${isNew ? "+" : isGone ? "-" : "~"} ${frontendText(family, key)}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`,
    ...(isGone || targetsChange === undefined ? [] : endpointLines(targetsChange)),
  ];
}

function isOutcomeMap(set: string): boolean {
  const role = frontendMapOf(set)?.role;
  return role === "services" || role === "noEndpoints";
}

function outcomeFacts(before: string | undefined, after: string | undefined): string[] {
  if (after === undefined) return before === undefined ? [] : [verdictText(before)];
  return [before === undefined ? verdictText(after) : `${verdictText(before)} -> ${verdictText(after)}`];
}

/** The facts besides the outcome. @param isWhole whether the whole frontend is added or removed */
function otherFacts(isWhole: boolean): (change: ElementChange) => string[] {
  return ({ set, before, after }) => {
    const role = frontendMapOf(set)?.role;
    if (role === "external") {
      if (!isWhole) return [`${verdictText(before ?? "")} -> ${verdictText(after ?? "")}`];
      return after === undefined ? [] : [verdictText(after)];
    }
    if (role === "shortcut" && after !== undefined) return [`${verdictText(after)} for pods and this node`];
    if (set !== FIREWALL_IPS) return [];
    if (after !== undefined) return ["guarded by source ranges"];
    return isWhole ? [] : ["no longer guarded by source ranges"];
  };
}

const MOST_ENDPOINTS = 6;

function endpointLines({ before, after }: TargetsChange): string[] {
  const line = (mark: string, targets: readonly string[]): string[] => {
    if (targets.length === 0) return [];
    const shown = targets.slice(0, MOST_ENDPOINTS).map(targetText).join(", ");
    const more = targets.length - MOST_ENDPOINTS;
    return [`    ${mark} ${shown}${more > 0 ? ` and ${more} more` : ""}`];
  };
  const added = [...after].filter((target) => !before.has(target));
  const removed = [...before].filter((target) => !after.has(target));
  return [...line("+", added), ...line("-", removed)];
}

/** The meaning of a verdict: `goto balance-3` is "3 endpoints". */
function verdictText(verdict: string): string {
  const role = parseChainName(verdictTarget(verdict) ?? "");
  if (role?.kind === "balancer") {
    const { count, affinitySeconds } = role.balancer;
    const endpoints = counted(count, "endpoint");
    return affinitySeconds === 0 ? endpoints : `${endpoints}, sticky for ${affinitySeconds} s`;
  }
  if (verdict === `goto ${REJECT_CHAIN}`) return "refused";
  if (verdict === `goto ${DROP_CHAIN}`) return "dropped";
  if (verdict === `jump ${MARK_FOR_MASQUERADE}`) return "masqueraded";
  return Object.values(EXTERNAL_LOCAL).some((chain) => verdict === `jump ${chain}`) ? "source kept" : verdict;
}

function frontendText(family: Family, key: string): string {
  const parts = splitParts(key);
  if (parts.length === 2) return `${ORIGIN_NAMES["node-port"]} ${parts[1]}/${parts[0]} (${FAMILY_NAMES[family]})`;
  return `${socketText(parts[0] ?? "", parts[2] ?? "")}/${parts[1]}`;
}
