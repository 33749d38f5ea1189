import { commandsOf, type ObjectCommand, type TableCommand } from "../commands.ts";
import type { TableDelta } from "../delta.ts";
import type { ObjectKind, ObjectKinds } from "../table-objects.ts";
import { ruleText } from "./rule-text.ts";
import {
  baseChainText,
  type Comments,
  declarationLines,
  elementLines,
  flowtableLine,
  timeoutLines,
} from "./table-text.ts";

/**
 * Formats deltas as commands for `nft -f`, in the order of a transaction. Each element has its own line,
 * where `comments` may add a comment.
 */
export function deltaText(deltas: readonly TableDelta[], comments: Comments = {}): string {
  return deltas
    .flatMap((delta) => commandsOf(delta).flatMap((command) => commandLines(delta, command, comments)))
    .map((line) => `${line}\n`)
    .join("");
}

function commandLines(delta: TableDelta, command: TableCommand, comments: Comments): string[] {
  const { verb, kind } = command;
  const table = `${delta.family} ${delta.table}`;
  switch (kind) {
    case "table":
      return [`${verb} table ${table}`];
    case "rule":
      return [`add rule ${table} ${command.chain} ${ruleText(command.rule)}`];
    case "element": {
      const { value: _, ...keyOnly } = command.spec;
      const spec = verb === "add" ? command.spec : keyOnly;
      const lines = elementLines(spec, command.elements, comments.element);
      return [`${verb} element ${table} ${spec.name} {`, ...lines.map((line) => `\t${line}`), "}"];
    }
    default:
      return [objectLine(delta, command)];
  }
}

function objectLine<Kind extends ObjectKind>(
  delta: TableDelta,
  { verb, kind, object }: ObjectCommand<Kind>,
): string {
  const word = "value" in object && object.value !== undefined ? "map" : kind;
  const parts = verb === "add" ? DECLARED[kind](object, delta) : [];
  const declaration = parts.length === 0 ? "" : ` { ${parts.join("; ")}; }`;
  return `${verb} ${word} ${delta.family} ${delta.table} ${object.name}${declaration}`;
}

/** What nft has to know of new objects besides their names. */
const DECLARED: { readonly [Kind in ObjectKind]: (object: ObjectKinds[Kind], of: TableDelta) => string[] } = {
  set: declarationLines,
  flowtable: (flowtable) => [flowtableLine(flowtable)],
  "ct timeout": (policy, table) => timeoutLines(table, policy),
  chain: ({ base }) => (base === undefined ? [] : [baseChainText(base)]),
};
