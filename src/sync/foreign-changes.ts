import { endianness } from "node:os";
import type { Family } from "../base/family.ts";
import { decodedElement, hasEndElements } from "../netlink/element-bytes.ts";
import { type Ruleset, type SetSpec, TABLE_NAME } from "../nft/ast/ruleset.ts";
import type { ElementsDelta, TableDelta } from "../nft/delta.ts";
import type { Element } from "../nft/elements.ts";
import { onlyElements } from "../nft/transaction.ts";
import type { TableMessage } from "./kernel-events.ts";

/** How the elements differ that commits touched, and what else they touched. */
export interface CommittedChanges {
  /** The elements that are not as desired now. */
  readonly deltas: readonly TableDelta[];
  /** Chains, rules, or declarations of sets were touched, too: the messages do not tell what they are like now. */
  readonly areDeclarations: boolean;
}

/**
 * Compares the elements that commits touched, whoever made them, with the desired ones. The last message about an element
 * tells whether it is there now.
 * @param messages about our tables, in the order of the commits
 * @returns undefined when elements were touched that cannot be told one by one: bounds of intervals, and others than we make
 */
export function committedChanges(
  messages: readonly TableMessage[],
  desired: Ruleset,
): CommittedChanges | undefined {
  let areDeclarations = false;
  const touched = new Map<SetSpec, { family: Family; elements: Map<string, Element | undefined> }>();
  for (const message of messages) {
    const { family } = message;
    const spec =
      message.kind === "elements" && family ? desired[family]?.sets.get(message.set)?.spec : undefined;
    if (message.kind !== "elements" || family === undefined || spec === undefined) {
      areDeclarations = true;
      continue;
    }
    if (spec.dynamic) continue;
    if (hasEndElements(spec)) return undefined;
    const known = touched.get(spec) ?? { family, elements: new Map() };
    touched.set(spec, known);
    for (const raw of message.elements) {
      const element = decodedElement(spec, raw, endianness());
      if (element === undefined) return undefined;
      known.elements.set(element.key, message.op === "new" ? element : undefined);
    }
  }
  const deltas = [...touched].flatMap(([spec, { family, elements }]) => {
    const delta = difference(spec, elements, desired[family]?.sets.get(spec.name)?.elements ?? new Map());
    return delta === undefined ? [] : [onlyElements({ family, table: TABLE_NAME }, [delta])];
  });
  return { deltas, areDeclarations };
}

function difference(
  spec: SetSpec,
  elements: ReadonlyMap<string, Element | undefined>,
  desired: ReadonlyMap<string, string>,
): ElementsDelta | undefined {
  const wrong = [...elements].filter(([key, element]) => element?.value !== desired.get(key));
  if (wrong.length === 0) return undefined;
  const added = wrong.flatMap(([key]) => {
    const value = desired.get(key);
    return value === undefined ? [] : [{ key, value }];
  });
  return { spec, deleted: wrong.flatMap(([key, element]) => (element === undefined ? [] : [key])), added };
}
