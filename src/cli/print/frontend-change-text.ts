import { counted } from "../../base/text.ts";
import { targetText } from "../../nft/elements.ts";
import { frontendText } from "../../ruleset/keys.ts";
import type { ProgrammedFrontend, ProgrammedList } from "../../ruleset/programmed-frontend.ts";
import type { FrontendChange } from "../../ruleset/ruleset-diff.ts";

/** A frontend's change in lines: `+ 10.96.0.10:53/udp: 2 endpoints`, then the endpoints that were added or removed. */
export function frontendLines({ key, before, after }: FrontendChange): string[] {
  const mark = before === undefined ? "+" : after === undefined ? "-" : "~";
  const facts = FACTS.flatMap((fact) => changeOf(before && fact(before), after && fact(after)));
  const endpoints = after === undefined ? [] : endpointLines(targetsOf(before), targetsOf(after));
  return [`${mark} ${frontendText(key)}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`, ...endpoints];
}

/** What there is to say of a frontend, each "" where it goes without saying. */
const FACTS: readonly ((frontend: ProgrammedFrontend) => string)[] = [
  outcomeText,
  ({ way }) => (way === undefined ? "" : WAY_TEXTS[way]),
  ({ way, lists }) =>
    way === "external-local" && lists.cluster ? `${listText(lists.cluster)} for pods and this node` : "",
  ({ isGuarded }) => (isGuarded ? "guarded by source ranges" : ""),
];

const WAY_TEXTS = {
  cluster: "",
  local: "",
  "external-cluster": "masqueraded",
  "external-local": "source kept",
} as const satisfies Record<NonNullable<ProgrammedFrontend["way"]>, string>;

function outcomeText({ way, lists, refusal }: ProgrammedFrontend): string {
  if (refusal !== undefined) return refusal;
  const list = way === "local" || way === "external-local" ? lists.local : lists.cluster;
  return list === undefined ? "" : listText(list);
}

function listText({ balancer: { count, slots, affinitySeconds }, targets }: ProgrammedList): string {
  const endpoints = counted(slots ? targets.size : count, "endpoint");
  return affinitySeconds === 0 ? endpoints : `${endpoints}, sticky for ${affinitySeconds} s`;
}

/** Of a frontend that is added or removed the fact itself; else only what changed. */
function changeOf(before: string | undefined, after: string | undefined): string[] {
  if (before === undefined || after === undefined) return [before ?? after ?? ""].filter((text) => text !== "");
  if (before === after) return [];
  if (before === "") return [after];
  return [after === "" ? `no longer ${before}` : `${before} -> ${after}`];
}

function targetsOf(frontend: ProgrammedFrontend | undefined): ReadonlySet<string> {
  return new Set(Object.values(frontend?.lists ?? {}).flatMap(({ targets }) => [...targets]));
}

const MOST_ENDPOINTS = 6;

function endpointLines(before: ReadonlySet<string>, after: ReadonlySet<string>): string[] {
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
