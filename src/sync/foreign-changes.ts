import type { Family } from "../base/family.ts";
import { type Ruleset, type SetSpec, TABLE_NAME } from "../nft/ast/ruleset.ts";
import { parsePrintedElement } from "../nft/canonical/elements.ts";
import type { ElementsDelta, TableDelta } from "../nft/delta.ts";
import type { Element } from "../nft/elements.ts";
import { onlyElements } from "../nft/transaction.ts";

/** How the elements differ that commits touched, and what else they touched. */
export interface CommittedChanges {
  /** The elements that are not as desired now. */
  readonly deltas: readonly TableDelta[];
  /** Chains, rules, or declarations of sets were touched, too: nft's lines do not tell what they are like now. */
  readonly areDeclarations: boolean;
}

const ELEMENT = /^(add|delete) element (ip6?) nft-proxy (\S+) \{ (.*) \}$/;

/**
 * Compares the elements that commits touched, whoever made them, with the desired ones. The last line about an element
 * tells whether it is there now.
 * @param lines of `nft monitor`, each of a change of our tables, in the order of the commits
 * @throws AppError NFT_OUTPUT when a line is not understood
 */
export function committedChanges(lines: readonly string[], desired: Ruleset): CommittedChanges {
  let areDeclarations = false;
  const touched = new Map<SetSpec, { family: Family; elements: Map<string, Element | undefined> }>();
  for (const line of lines) {
    const [, verb, family, name = "", text = ""] = ELEMENT.exec(line) ?? [];
    const spec = desired[family as Family]?.sets.get(name)?.spec;
    if (spec === undefined) {
      areDeclarations = true;
      continue;
    }
    if (spec.dynamic) continue;
    const element = parsePrintedElement(spec, text);
    const known = touched.get(spec) ?? { family: family as Family, elements: new Map() };
    touched.set(spec, known);
    known.elements.set(element.key, verb === "add" ? element : undefined);
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
