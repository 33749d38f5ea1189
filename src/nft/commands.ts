import type { Rule } from "./ast/json.ts";
import type { Chain, SetSpec } from "./ast/ruleset.ts";
import { type ElementsDelta, type TableDelta, writtenChains } from "./delta.ts";
import { type Element, elementsOf } from "./elements.ts";
import { isReplacedChain, OBJECT_KINDS, type ObjectKind, type ObjectKinds, ofKind } from "./table-objects.ts";

/** A command for nft about a table or a part of it. */
export type TableCommand =
  | { readonly verb: "add" | "delete"; readonly kind: "table" }
  | ObjectCommand
  | { readonly verb: "add"; readonly kind: "rule"; readonly chain: string; readonly rule: Rule }
  | ElementsCommand;

/** A command about an object; it is deleted or emptied by its name alone. */
export type ObjectCommand<Some extends ObjectKind = ObjectKind> = {
  [Kind in Some]: {
    readonly verb: "add" | "delete" | "flush";
    readonly kind: Kind;
    readonly object: ObjectKinds[Kind];
  };
}[Some];

/** A command about elements of a set, which are deleted by their keys alone. */
export interface ElementsCommand {
  readonly verb: "add" | "delete";
  readonly kind: "element";
  readonly spec: SetSpec;
  readonly elements: readonly Element[];
}

const ADD = { verb: "add", kind: "table" } as const;
const OF_TABLE = {
  create: [ADD],
  recreate: [ADD, { verb: "delete", kind: "table" }, ADD],
  change: [],
} as const;

/**
 * The commands for the changes of a table, in the order that the kernel requires: a chain is declared before
 * anything leads to it, and deleted after everything that led to it.
 * @param mayExist whether chains and sets that are created may exist, and have to be emptied
 */
export function commandsOf(delta: TableDelta, mayExist = false): TableCommand[] {
  const { mode, objects, elements } = delta;
  const sorted = OBJECT_KINDS.flatMap((kind) => ofKind(objects, kind));
  const chains = ofKind(objects, "chain");
  const written = writtenChains(delta);
  const gone = chains.flatMap(({ before, after }) => (before && !after ? [before] : []));
  const replaced = chains.filter(isReplacedChain).flatMap(({ before }) => before ?? []);
  const emptied = ofKind(objects, "set").flatMap(({ after }) => (after?.dynamic === false ? [after] : []));
  return [
    ...OF_TABLE[mode],
    ...replaced.flatMap((chain) => [onObject("flush", "chain", chain), onObject("delete", "chain", chain)]),
    ...sorted.flatMap(({ kind, after }) => (after ? [onObject("add", kind, after)] : [])),
    ...elements.flatMap(deletions),
    ...[...gone, ...(mode === "change" || mayExist ? written : [])].map(flushed),
    ...(mayExist ? emptied.map((spec) => onObject("flush", "set", spec)) : []),
    ...replacements(delta, written),
    ...written.flatMap(ruleCommands),
    ...elements.flatMap(additions),
    ...sorted.flatMap(({ kind, before, after }) =>
      before && !after ? [onObject("delete", kind, before)] : [],
    ),
  ];
}

export function onObject<Kind extends ObjectKind>(
  verb: ObjectCommand["verb"],
  kind: Kind,
  object: ObjectKinds[Kind],
): ObjectCommand {
  return { verb, kind, object } as ObjectCommand;
}

/** The rules of a chain. */
export function ruleCommands({ name, rules }: Chain): TableCommand[] {
  return rules.map((rule) => ({ verb: "add", kind: "rule", chain: name, rule }));
}

/**
 * Adds elements with a timeout before it deletes them: the kernel refuses to delete a missing element, and
 * they may have expired.
 */
export function endingDeletions(spec: SetSpec, elements: readonly Element[]): ElementsCommand[] {
  const deletion = { verb: "delete", kind: "element", spec, elements } as const;
  return [{ ...deletion, verb: "add" }, deletion];
}

function flushed(chain: Chain): TableCommand {
  return onObject("flush", "chain", chain);
}

function deletions({ spec, deleted, intervalDeletion }: ElementsDelta): ElementsCommand[] {
  if (deleted.length === 0 || intervalDeletion?.replacement !== undefined) return [];
  const commands = endingDeletions(spec, deleted);
  return spec.timeout === undefined ? commands.slice(1) : commands;
}

function additions({ spec, added, intervalDeletion }: ElementsDelta): ElementsCommand[] {
  const replacement = intervalDeletion?.replacement;
  const elements = replacement === undefined ? added : elementsOf(replacement);
  return elements.length === 0 ? [] : [{ verb: "add", kind: "element", spec, elements }];
}

/** Recreates maps, without elements, and the rules that look into them. */
function replacements({ elements }: TableDelta, written: readonly Chain[]): TableCommand[] {
  const maps = elements.filter(({ intervalDeletion }) => intervalDeletion?.replacement !== undefined);
  const users = new Map(
    maps.flatMap(({ intervalDeletion }) => (intervalDeletion?.users ?? []).map((user) => [user.name, user])),
  );
  // Chains that are written have no rules yet, and get them next.
  for (const { name } of written) users.delete(name);
  return [
    ...[...users.values()].map(flushed),
    ...maps.flatMap(({ spec }) => [onObject("delete", "set", spec), onObject("add", "set", spec)]),
    ...[...users.values()].flatMap(ruleCommands),
  ];
}
