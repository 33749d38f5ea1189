import { counted, firstNames } from "../../base/text.ts";
import { FRONTEND_KINDS } from "../../features/frontends.ts";
import { FEATURES } from "../../features/registry.ts";
import { targetText } from "../../nft/elements.ts";
import { isOfFrontends } from "../../ruleset/frontend-kinds.ts";
import { frontendText, idOfKey } from "../../ruleset/keys.ts";
import type { ProgrammedFrontend, ProgrammedList } from "../../ruleset/programmed-frontend.ts";
import { REFUSAL_CAUSES } from "../../ruleset/refusal-causes.ts";
import {
  type ElementChange,
  type FrontendChange,
  hasNoDifference,
  type PartChange,
  type RulesetDiff,
} from "../../ruleset/ruleset-diff.ts";
import { jsonText } from "../command-result.ts";

/** The names of the two sides of a comparison. */
export interface DiffSides {
  readonly before: string;
  readonly after: string;
}

/** The text output: the two sides, then the changes by Service and frontend. */
export function diffText(diff: RulesetDiff, { before, after }: DiffSides): string {
  const head = `--- ${before}\n+++ ${after}\n`;
  return `${head}${hasNoDifference(diff) ? "no difference\n" : changesText(diff)}`;
}

function changesText(diff: RulesetDiff): string {
  const frontendsOf = (name: string | undefined) =>
    diff.frontends.filter(({ service }) => service === name).flatMap(frontendLines);
  const partsOf = (name: string | undefined) =>
    diff.parts.filter(({ service }) => service === name).map(partLine);
  const sections = [
    ...[...diff.services].map(([name, changes]) => {
      // A Service's other changes follow from those of its frontends.
      const frontends = frontendsOf(name);
      return {
        title: name,
        lines: [...(frontends.length > 0 ? frontends : changes.map(elementLine)), ...partsOf(name)],
      };
    }),
    { title: "not owned by any known Service", lines: frontendsOf(undefined) },
    {
      title: "of this node",
      lines: [
        ...diff.others
          .filter(({ set, key }) => !isOfFrontends(set, FRONTEND_KINDS) && idOfKey(key) === undefined)
          .map(elementLine),
        ...partsOf(undefined),
      ],
    },
  ];
  const told = sections.filter(({ lines }) => lines.length > 0);
  return [
    ...told.flatMap(({ title, lines }) => [title, ...lines.map((line) => `  ${line}`), ""]),
    `${summary(diff)}\n`,
  ].join("\n");
}

const MARKS: Readonly<Record<PartChange["change"], string>> = { added: "+", removed: "-", changed: "~" };

function partLine({ family, kind, name, change, service }: PartChange): string {
  const feature = FEATURES.find(({ ruleset }) => ruleset?.isChainOfPort?.(name));
  const of = feature?.ruleset?.budget?.topic;
  return `${MARKS[change]} ${kind} ${family} ${name}${service === undefined || of === undefined ? "" : `: its ${of}`}`;
}

function elementLine({ family, set, key, before, after }: ElementChange): string {
  const mark = before === undefined ? "+" : after === undefined ? "-" : "~";
  const values = [before, after].filter((value) => value !== undefined && value !== "").join(" -> ");
  return `${mark} ${family} ${set} ${key.replaceAll(" . ", " ")}${values === "" ? "" : `: ${values}`}`;
}

function summary({ services, others, parts }: RulesetDiff): string {
  const all = [...new Set([...services.values()].flat()), ...others];
  const count = (isCounted: (change: ElementChange) => boolean) => all.filter(isCounted).length;
  const added = count(({ before }) => before === undefined);
  const removed = count(({ after }) => after === undefined);
  const elements = `${added} added, ${removed} removed, ${all.length - added - removed} changed`;
  const differing = services.size === 1 ? "1 Service differs" : `${services.size} Services differ`;
  const kinds = (["table", "chain", "set", "object"] as const).flatMap((kind) => {
    const changed = parts.filter((part) => part.kind === kind).length;
    return changed === 0 ? [] : [counted(changed, kind)];
  });
  return `${[differing, `elements: ${elements}`, ...(kinds.length === 0 ? [] : [`changed: ${kinds.join(", ")}`])].join("; ")}`;
}

/** The JSON output: schemas/diff-report.schema.json. */
export function diffJson(diff: RulesetDiff, { before, after }: DiffSides): string {
  return jsonText({
    before,
    after,
    same: hasNoDifference(diff),
    services: [...diff.services].map(([service, elements]) => ({ service, elements })),
    others: diff.others,
    parts: diff.parts,
  });
}

/**
 * The lines of a changed frontend: `+ 10.96.0.10:53/udp: 2 endpoints`, then the added and removed endpoints.
 */
function frontendLines({ key, before, after }: FrontendChange): string[] {
  const mark = before === undefined ? "+" : after === undefined ? "-" : "~";
  const facts = FACTS.flatMap((fact) => changeOf(before && fact(before), after && fact(after)));
  const endpoints = after === undefined ? [] : endpointLines(targetsOf(before), targetsOf(after));
  return [`${mark} ${frontendText(key)}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`, ...endpoints];
}

/** The facts about a frontend; "" for the default. */
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
  if (refusal !== undefined) return REFUSAL_CAUSES[refusal].result;
  const list = way === "local" || way === "external-local" ? lists.local : lists.cluster;
  return list === undefined ? "" : listText(list);
}

function listText({ affinitySeconds, targets }: ProgrammedList): string {
  const endpoints = counted(targets.size, "endpoint");
  return affinitySeconds === 0 ? endpoints : `${endpoints}, sticky for ${affinitySeconds} s`;
}

/** For an added or removed frontend, its fact; otherwise the change, if there is one. */
function changeOf(before: string | undefined, after: string | undefined): string[] {
  if (before === undefined || after === undefined)
    return [before ?? after ?? ""].filter((text) => text !== "");
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
    return [`    ${mark} ${firstNames(targets.map(targetText), MOST_ENDPOINTS)}`];
  };
  const added = [...after].filter((target) => !before.has(target));
  const removed = [...before].filter((target) => !after.has(target));
  return [...line("+", added), ...line("-", removed)];
}
