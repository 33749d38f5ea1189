import { conntrackDefaults } from "../../base/conntrack-defaults.ts";
import { durationText } from "../../base/duration.ts";
import type {
  BaseChain,
  Chain,
  DataType,
  ElementSet,
  Flowtable,
  SetSpec,
  Table,
  TimeoutPolicy,
} from "../ast/ruleset.ts";
import { formatClassid } from "../canonical/constant.ts";
import { PRIORITIES } from "../canonical/declarations.ts";
import { declaringExpression } from "../data-types.ts";
import { type Element, elementsOf, splitParts } from "../elements.ts";
import { expressionText, ruleText } from "./rule-text.ts";

/** Text for `#` comments beside elements and chains; undefined for none. */
export interface Comments {
  readonly element?: (spec: SetSpec, key: string) => string | undefined;
  readonly chain?: (name: string) => string | undefined;
}

/** The separator of lines of elements, which are aligned after `elements = { `. */
const ALIGNED = ",\n\t\t\t     ";

/**
 * Formats a table like `nft list table` (nft 1.1.3), but without counts; `nft -f` reads it. With comments,
 * every element has its own line.
 */
export function tableText(table: Table, comments: Comments = {}): string {
  const { family, name, timeouts = new Map<string, TimeoutPolicy>(), sets, flowtable, chains } = table;
  const objects = [
    ...Array.from(timeouts.values(), (one) => blockText(`ct timeout ${one.name}`, timeoutLines(table, one))),
    ...Array.from(sets.values(), (set) => setText(set, comments)),
    ...(flowtable ? [blockText(`flowtable ${flowtable.name}`, [flowtableLine(flowtable)])] : []),
    ...Array.from(chains.values(), (chain) => chainText(chain, comments)),
  ];
  return `table ${family} ${name} {\n${objects.join("\n")}}\n`;
}

/** Formats a set or map with its elements as in a table's listing. */
export function setText({ spec, elements }: ElementSet, comments: Comments = {}): string {
  const filled = elements.size === 0 ? [] : [`elements = ${elementsText(spec, elements, comments)}`];
  const kind = spec.value === undefined ? "set" : "map";
  return blockText(`${kind} ${spec.name}`, [...declarationLines(spec), ...filled]);
}

/** An object of a table: `set NAME { LINES }`. */
function blockText(head: string, lines: readonly string[], comment = ""): string {
  return `\t${head} {${comment}\n${lines.map((line) => `\t\t${line}\n`).join("")}\t}\n`;
}

/** The declaration of an object with timeouts in lines, without those that are nft's defaults. */
export function timeoutLines(
  { family }: Pick<Table, "family">,
  { protocol, policy }: TimeoutPolicy,
): string[] {
  const defaults = conntrackDefaults(protocol);
  const states = Object.entries(policy).filter(([state, seconds]) => seconds !== defaults[state]);
  const texts = states.map(([state, seconds]) => `${state} : ${durationText(seconds)}`);
  return [`protocol ${protocol}`, `l3proto ${family}`, `policy = { ${texts.join(", ")} }`];
}

/** The declaration of a flow table without devices: `hook ingress priority filter`. */
export function flowtableLine({ hook, prio }: Flowtable): string {
  return `hook ${hook} priority ${priorityText(hook, prio)}`;
}

/** The declaration of a set or map in lines: `typeof ip daddr : verdict`, `flags dynamic,timeout`. */
export function declarationLines({
  key,
  value,
  size,
  timeout,
  dynamic,
  untimed,
  counter,
  interval,
}: SetSpec): string[] {
  const typesText = (types: readonly DataType[], side: "key" | "value") =>
    expressionText(declaringExpression(types, side));
  const valueText =
    value === undefined ? "" : ` : ${value === "verdict" ? "verdict" : typesText(value, "value")}`;
  return [
    `typeof ${typesText(key, "key")}${valueText}`,
    ...(size === undefined ? [] : [`size ${size}`]),
    ...(dynamic ? [untimed ? "flags dynamic" : "flags dynamic,timeout"] : []),
    ...(interval ? ["flags interval"] : []),
    ...(timeout === undefined ? [] : [`timeout ${durationText(timeout)}`]),
    ...(counter ? ["counter"] : []),
  ];
}

function elementsText(
  spec: SetSpec,
  elements: ReadonlyMap<string, string>,
  { element: commentOn }: Comments,
): string {
  if (commentOn !== undefined) {
    const lines = elementLines(spec, elementsOf(elements), commentOn);
    return `{\n${lines.map((line) => `\t\t\t${line}\n`).join("")}\t\t}`;
  }
  const texts = [...elements].map(([key, value]) => elementText(spec, key, value));
  return `{ ${wrapped(texts, elementsPerLine(spec))} }`;
}

/** Formats elements in a line each, with a comma after all but the last. */
export function elementLines(
  spec: SetSpec,
  elements: readonly Element[],
  commentOn: Comments["element"],
): string[] {
  return elements.map(({ key, value }, index) => {
    const comma = index === elements.length - 1 ? "" : ",";
    return `${elementText(spec, key, value)}${comma}${commentText(commentOn?.(spec, key))}`;
  });
}

function commentText(comment: string | undefined): string {
  return comment === undefined ? "" : ` # ${comment}`;
}

function wrapped(texts: readonly string[], perLine: number): string {
  if (perLine === 1) return texts.join(ALIGNED);
  const lines: string[] = [];
  for (let i = 0; i < texts.length; i += perLine) lines.push(texts.slice(i, i + perLine).join(", "));
  return lines.join(ALIGNED);
}

function elementsPerLine({ key, value }: SetSpec): number {
  if (key.length > 1 || value !== undefined) return 1;
  if (key[0] === "ipv4_addr") return 2;
  return key[0] === "inet_service" || key[0] === "inet_proto" ? 5 : 1;
}

/** Formats an element as nft prints it: `10.96.0.10 . tcp . 53 . 0:1 : 10.244.2.14 . 53`. */
export function elementText(spec: SetSpec, key: string, value: string): string {
  const keyText = dataText(spec.key, spec.interval && spec.key.length > 1 ? withoutSingleRange(key) : key);
  if (spec.value === undefined) return keyText;
  return `${keyText} : ${spec.value === "verdict" ? value : dataText(spec.value, value)}`;
}

/** Formats a range of one port as that port. */
function withoutSingleRange(key: string): string {
  return key.replace(/ (\d+)-\1$/, " $1");
}

function dataText(types: readonly DataType[], text: string): string {
  if (!types.includes("classid")) return text;
  const parts = splitParts(text);
  return types
    .map((type, i) => (type === "classid" ? formatClassid(Number(parts[i])) : parts[i]))
    .join(" . ");
}

/** Formats a chain with its rules as in a table's listing. */
export function chainText({ name, base, rules }: Chain, comments: Comments = {}): string {
  const lines = [...(base === undefined ? [] : [`${baseChainText(base)};`]), ...rules.map(ruleText)];
  return blockText(`chain ${name}`, lines, commentText(comments.chain?.(name)));
}

/** Formats the hook of a base chain: `type nat hook prerouting priority dstnat; policy accept`. */
export function baseChainText({ type, hook, prio, policy }: BaseChain): string {
  return `type ${type} hook ${hook} priority ${priorityText(hook, prio)}; policy ${policy}`;
}

/** Formats a priority as nft does: by a name at most 10 away that the hook has. */
function priorityText(hook: BaseChain["hook"] | Flowtable["hook"], prio: number): string {
  for (const [name, standard] of Object.entries(PRIORITIES)) {
    const offset = prio - standard;
    const hasName =
      (name !== "srcnat" || hook === "postrouting") &&
      (name !== "dstnat" || hook === "prerouting" || hook === "output");
    if (!hasName || Math.abs(offset) > 10) continue;
    return offset === 0 ? name : `${name} ${offset < 0 ? "-" : "+"} ${Math.abs(offset)}`;
  }
  return String(prio);
}
