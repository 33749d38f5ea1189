import type { Chain, SetSpec } from "../ast/ruleset.ts";
import type { ElementsDelta, TableDelta } from "../delta.ts";
import { ruleText } from "./rule-text.ts";
import {
  baseChainText,
  type Comments,
  declarationLines,
  elementText,
  flowtableLine,
  timeoutLines,
} from "./table-text.ts";

/**
 * Formats deltas as commands for `nft -f`, in the order of {@link toTransaction}. Each element has its own
 * line, where `comments` may add a comment.
 */
export function deltaText(deltas: readonly TableDelta[], comments: Comments = {}): string {
  return deltas
    .flatMap((delta) => tableLines(delta, comments))
    .map((line) => `${line}\n`)
    .join("");
}

function tableLines(delta: TableDelta, comments: Comments): string[] {
  const table = `${delta.family} ${delta.table}`;
  const flushed = delta.mode === "change" ? delta.writtenChains : [];
  return [
    ...(delta.mode === "change" ? [] : [`add table ${table}`]),
    ...(delta.mode === "recreate" ? [`delete table ${table}`, `add table ${table}`] : []),
    ...delta.addedSets.map(
      (spec) => `add ${kindOf(spec)} ${table} ${spec.name} { ${declarationLines(spec).join("; ")}; }`,
    ),
    ...(delta.addedFlowtable === undefined
      ? []
      : [`add flowtable ${table} ${delta.addedFlowtable.name} { ${flowtableLine(delta.addedFlowtable)}; }`]),
    ...(delta.addedTimeouts ?? []).map(
      (policy) => `add ct timeout ${table} ${policy.name} { ${timeoutLines(delta, policy).join("; ")}; }`,
    ),
    ...delta.replacedChains.flatMap((name) => [
      `flush chain ${table} ${name}`,
      `delete chain ${table} ${name}`,
    ]),
    ...delta.writtenChains.map((chain) => `add chain ${table} ${chain.name}${baseText(chain)}`),
    ...delta.elements.flatMap((elements) => deletedLines(table, elements, comments)),
    ...delta.deletedChains.map((name) => `flush chain ${table} ${name}`),
    ...flushed.map(({ name }) => `flush chain ${table} ${name}`),
    ...delta.writtenChains.flatMap(({ name, rules }) =>
      rules.map((rule) => `add rule ${table} ${name} ${ruleText(rule)}`),
    ),
    ...delta.elements.flatMap((elements) => addedLines(table, elements, comments)),
    ...delta.deletedSets.map((spec) => `delete ${kindOf(spec)} ${table} ${spec.name}`),
    ...(delta.deletedFlowtable === undefined
      ? []
      : [`delete flowtable ${table} ${delta.deletedFlowtable.name}`]),
    ...delta.deletedChains.map((name) => `delete chain ${table} ${name}`),
    ...(delta.deletedTimeouts ?? []).map((name) => `delete ct timeout ${table} ${name}`),
  ];
}

function kindOf({ value }: SetSpec): string {
  return value === undefined ? "set" : "map";
}

function baseText({ base }: Chain): string {
  return base === undefined ? "" : ` { ${baseChainText(base)} }`;
}

function deletedLines(table: string, { spec, deleted }: ElementsDelta, comments: Comments): string[] {
  const { value: _, ...keyOnly } = spec;
  const elements = deleted.map((key) => ({ text: elementText(keyOnly, key, ""), key }));
  const lines = elementLines(`delete element ${table} ${spec.name}`, elements, spec, comments);
  if (spec.timeout === undefined) return lines;
  return [...elementLines(`add element ${table} ${spec.name}`, elements, spec, {}), ...lines];
}

function addedLines(table: string, { spec, added }: ElementsDelta, comments: Comments): string[] {
  const elements = added.map(({ key, value }) => ({ text: elementText(spec, key, value), key }));
  return elementLines(`add element ${table} ${spec.name}`, elements, spec, comments);
}

function elementLines(
  command: string,
  elements: readonly { readonly text: string; readonly key: string }[],
  spec: SetSpec,
  { element: commentOn }: Comments,
): string[] {
  if (elements.length === 0) return [];
  const lines = elements.map(({ text, key }, i) => {
    const comment = commentOn?.(spec, key);
    return `\t${text}${i === elements.length - 1 ? "" : ","}${comment === undefined ? "" : ` # ${comment}`}`;
  });
  return [`${command} {`, ...lines, "}"];
}
