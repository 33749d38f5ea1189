import { counted } from "../../base/text.ts";
import type { ElementChange, PartChange, RulesetDiff } from "../../ruleset/ruleset-diff.ts";
import { isSame } from "../../ruleset/ruleset-diff.ts";
import { isOfFrontends, isOfLists } from "../../ruleset/sets.ts";
import { frontendLines } from "./frontend-change-text.ts";

/** The names of the two sides of a comparison. */
export interface DiffSides {
  readonly before: string;
  readonly after: string;
}

/** A difference for people: the two sides, then Service by Service, frontend by frontend. */
export function diffText(diff: RulesetDiff, { before, after }: DiffSides): string {
  const head = `--- ${before}\n+++ ${after}\n`;
  return `${head}${isSame(diff) ? "no difference\n" : changesText(diff)}`;
}

function changesText(diff: RulesetDiff): string {
  const frontendsOf = (name: string | undefined) =>
    diff.frontends.filter(({ service }) => service === name).flatMap(frontendLines);
  const partsOf = (name: string | undefined) => diff.parts.filter(({ service }) => service === name).map(partLine);
  const sections = [
    ...[...diff.services].map(([name, changes]) => {
      // The other changes of a Service follow from those of its frontends.
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
        ...diff.others.filter(({ set }) => !isOfFrontends(set) && !isOfLists(set)).map(elementLine),
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
  return `${MARKS[change]} ${kind} ${family} ${name}${service === undefined ? "" : ": its source ranges"}`;
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
  const kinds = (["table", "chain", "set"] as const).flatMap((kind) => {
    const changed = parts.filter((part) => part.kind === kind).length;
    return changed === 0 ? [] : [counted(changed, kind)];
  });
  return `${[differing, `elements: ${elements}`, ...(kinds.length === 0 ? [] : [`changed: ${kinds.join(", ")}`])].join("; ")}`;
}

/** A difference as schemas/diff-report.schema.json has it. */
export function diffJson(diff: RulesetDiff, { before, after }: DiffSides): string {
  return `${JSON.stringify({
    before,
    after,
    same: isSame(diff),
    services: [...diff.services].map(([service, elements]) => ({ service, elements })),
    others: diff.others,
    parts: diff.parts,
  })}\n`;
}
