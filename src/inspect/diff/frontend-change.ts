import { FAMILY_NAMES, type Family } from "../../base/family.ts";
import { counted, socketText } from "../../base/text.ts";
import { splitParts, targetText, verdictTarget } from "../../nft/elements.ts";
import { EXTERNAL_LOCAL, MARK_FOR_MASQUERADE, REJECT_CHAIN } from "../../ruleset/base-chains.ts";
import { parseChainName } from "../../ruleset/chain-names.ts";
import { frontendOf } from "../../ruleset/element-owners.ts";
import { type ElementChange, type RulesetDiff, type TargetsChange, targetsKey } from "../../ruleset/ruleset-diff.ts";
import { FIREWALL_IPS, type FrontendMapRole, frontendMapOf } from "../../ruleset/sets.ts";

/** All changes of one frontend. */
export interface FrontendChange {
  readonly family: Family;
  /** `10.96.0.10 . tcp . 53`, or `tcp . 30080` for a NodePort. */
  readonly key: string;
  readonly changes: readonly ElementChange[];
}

const roleOf = ({ set }: ElementChange): FrontendMapRole | undefined => frontendMapOf(set)?.role;

/** Whether a map says what becomes of connections to a frontend. */
const hasOutcome = (change: ElementChange): boolean => {
  const role = roleOf(change);
  return role === "services" || role === "noEndpoints";
};

/** Gathers the changes of a Service by frontend; what belongs to none is left over. */
export function frontendChanges(changes: readonly ElementChange[]): {
  readonly frontends: readonly FrontendChange[];
  readonly rest: readonly ElementChange[];
} {
  const byFrontend = new Map<string, { family: Family; key: string; changes: ElementChange[] }>();
  const rest: ElementChange[] = [];
  for (const change of changes) {
    const key = keyOf(change);
    if (key === undefined) {
      rest.push(change);
      continue;
    }
    const id = `${change.family} ${key}`;
    const known = byFrontend.get(id) ?? { family: change.family, key, changes: [] };
    known.changes.push(change);
    byFrontend.set(id, known);
  }
  return { frontends: [...byFrontend.values()], rest };
}

function keyOf({ set, key }: ElementChange): string | undefined {
  return frontendMapOf(set) !== undefined || set === FIREWALL_IPS ? frontendOf(set, key) : undefined;
}

/** A frontend's change in words: `+ 10.96.0.10:53/udp: 2 endpoints`, then what is to be said of its endpoints. */
export function frontendLines({ family, key, changes }: FrontendChange, targets: RulesetDiff["targets"]): string[] {
  const outcomes = changes.filter(hasOutcome);
  const before = outcomes.find((change) => change.before !== undefined)?.before;
  const after = outcomes.find((change) => change.after !== undefined)?.after;
  const isNew = before === undefined && after !== undefined;
  const isGone = before !== undefined && after === undefined;
  const targetsChange = targets.get(targetsKey(family, key));
  const facts = [...outcomeFacts(before, after), ...changes.flatMap(sideFacts(isNew || isGone))];
  return [
    `${isNew ? "+" : isGone ? "-" : "~"} ${frontendText(family, key)}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`,
    ...(isGone || targetsChange === undefined ? [] : endpointLines(targetsChange)),
  ];
}

function outcomeFacts(before: string | undefined, after: string | undefined): string[] {
  if (after === undefined) return before === undefined ? [] : [`was: ${words(before)}`];
  return [before === undefined ? words(after) : `${words(before)} -> ${words(after)}`];
}

/** What is beside a frontend's outcome; of one that goes, nothing. */
function sideFacts(isWhole: boolean): (change: ElementChange) => string[] {
  return (change) => {
    const { set, before, after } = change;
    const role = roleOf(change);
    if (role === "external") {
      return isWhole
        ? after === undefined
          ? []
          : [words(after)]
        : [`${words(before ?? "")} -> ${words(after ?? "")}`];
    }
    if (role === "shortcut" && after !== undefined) return [`for pods and this node ${words(after)}`];
    if (set !== FIREWALL_IPS) return [];
    return after === undefined ? (isWhole ? [] : ["no longer guarded by source ranges"]) : ["guarded by source ranges"];
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

/** A verdict as people say it: `goto balance-3` is "3 endpoints". */
function words(verdict: string): string {
  const role = parseChainName(verdictTarget(verdict) ?? "");
  if (role?.kind === "balancer") {
    const { count, affinitySeconds } = role.balancer;
    const endpoints = counted(count, "endpoint");
    return affinitySeconds === 0 ? endpoints : `${endpoints}, sticky for ${affinitySeconds} s`;
  }
  if (verdict === `goto ${REJECT_CHAIN}`) return "refused";
  if (verdict === "drop") return "dropped";
  if (verdict === `jump ${MARK_FOR_MASQUERADE}`) return "masqueraded";
  return Object.values(EXTERNAL_LOCAL).some((chain) => verdict === `jump ${chain}`) ? "source kept" : verdict;
}

function frontendText(family: Family, key: string): string {
  const parts = splitParts(key);
  if (parts.length === 2) return `node port ${parts[1]}/${parts[0]} (${FAMILY_NAMES[family]})`;
  return `${socketText(parts[0] ?? "", parts[2] ?? "")}/${parts[1]}`;
}
