import type { ServicePort } from "../../model/service-port.ts";
import type { Transaction } from "../../nft/ast/json.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import type { TableDelta } from "../../nft/delta.ts";
import { deltaText } from "../../nft/text/delta-text.ts";
import { type Comments, tableText } from "../../nft/text/table-text.ts";
import { validateTransaction } from "../../nft/validate.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { type ElementOwners, elementOwners } from "../../ruleset/ruleset-state.ts";

/** The most owners of one element that are named; more are counted. */
const MOST_NAMED = 3;

/** A transaction for `nft -j -f -`, checked against its schema. Ends with a line feed. */
export function transactionJson(transaction: Transaction): string {
  validateTransaction(transaction);
  return `${JSON.stringify(transaction)}\n`;
}

/** Tables as nft prints them, each element with the service port that it belongs to. */
export function rulesetText(ruleset: Ruleset, state: RulesetState): string {
  return Object.values(ruleset)
    .map((table) => tableText(table, commentsOf(state, table.family)))
    .join("");
}

/** Changes as nft's commands, each element with the service port that it belongs to. */
export function changesText(deltas: readonly TableDelta[], state: RulesetState): string {
  if (deltas.length === 0) return "# nothing to change\n";
  return deltas.map((delta) => deltaText([delta], commentsOf(state, delta.family))).join("");
}

function commentsOf({ families }: RulesetState, family: TableDelta["family"]): Comments {
  const state = families[family];
  if (state === undefined) return {};
  const owners: ElementOwners = elementOwners(state);
  return {
    element: ({ name }, key) => ownersText(owners.ofElement(name, key)),
    chain: (name) => ownersText(owners.ofPart(name)),
  };
}

function ownersText(owners: readonly ServicePort[]): string | undefined {
  if (owners.length === 0) return undefined;
  const named = owners.slice(0, MOST_NAMED).map(({ name }) => name);
  const more = owners.length - named.length;
  return `${named.join(", ")}${more === 0 ? "" : ` and ${more} more`}`;
}
