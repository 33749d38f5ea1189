import type { Family } from "../../src/base/family.ts";
import type { Command, Transaction } from "../../src/nft/ast/json.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { splitElement } from "../../src/nft/canonical/elements.ts";
import { type Draft, memberOf, ownFamily, place, tableOf } from "../../src/nft/canonical/parse.ts";
import {
  asList,
  asObject,
  asTagged,
  asText,
  type JsonObject,
  notUnderstood,
} from "../../src/nft/canonical/shape.ts";
import { asListed, keyText, placeElements, unwrapKey } from "./listed-elements.ts";

/**
 * Returns the ruleset after a transaction, without changing the given one. Commands act in order, as in the
 * kernel. A missing object causes the error NFT_OUTPUT. Commands on other tables are ignored.
 */
export function applyTransaction(ruleset: Ruleset, transaction: Transaction): Ruleset {
  const draft = draftOf(ruleset);
  for (const command of transaction.nftables) applyCommand(draft, command);
  return draft;
}

/** Returns a copy of a ruleset that commands may change. */
export function draftOf(ruleset: Ruleset): Draft {
  const draft: Draft = {};
  for (const table of Object.values(ruleset)) {
    draft[table.family] = {
      family: table.family,
      name: table.name,
      ...(table.isDormant && { isDormant: true }),
      ...(table.flowtable && { flowtable: table.flowtable }),
      ...(table.timeouts && { timeouts: new Map(table.timeouts) }),
      chains: new Map(
        [...table.chains].map(([name, chain]) => [name, { ...chain, rules: [...chain.rules] }]),
      ),
      sets: new Map(
        [...table.sets].map(([name, { spec, elements }]) => [name, { spec, elements: new Map(elements) }]),
      ),
    };
  }
  return draft;
}

/** Applies one command to a draft, which it changes. See {@link applyTransaction}. */
export function applyCommand(draft: Draft, command: Command): void {
  const [verb, target] = asTagged(command, "command");
  const [kind, body] = asTagged(target, "object of a command");
  if (verb === "add") add(draft, kind, asObject(body, kind));
  else if (verb === "delete") remove(draft, kind, asObject(body, kind));
  else if (verb === "flush") flush(draft, kind, asObject(body, kind));
  else throw notUnderstood(`command "${verb}"`, command);
}

/** Keeps existing objects, as nft's `add` does. */
function add(draft: Draft, kind: string, object: JsonObject): void {
  const family = ownFamily(kind, object);
  const table = family && draft[family];
  if (kind === "table" && table !== undefined) {
    // An existing table gets the flags with which it is added.
    const added: Draft = {};
    place(added, kind, object);
    if (added[table.family]?.isDormant) table.isDormant = true;
    else delete table.isDormant;
  } else if (kind === "element" && family !== undefined) {
    placeElements(memberOf(tableOf(draft, family).sets, object.name), asList(object.elem, kind));
  } else if (!isIn(table, kind, object)) place(draft, kind, asListed(object));
}

function isIn(table: Draft[Family], kind: string, { name }: JsonObject): boolean {
  const members = kind === "chain" ? table?.chains : kind === "ct timeout" ? table?.timeouts : table?.sets;
  return kind !== "rule" && kind !== "flowtable" && members?.has(asText(name, "name")) === true;
}

function remove(draft: Draft, kind: string, object: JsonObject): void {
  const family = ownFamily(kind, object);
  if (family === undefined) return;
  const table = tableOf(draft, family);
  const name = asText(object.name, "name");
  switch (kind) {
    case "table":
      delete draft[family];
      return;
    case "chain":
      memberOf(table.chains, name);
      table.chains.delete(name);
      return;
    case "set":
    case "map":
      memberOf(table.sets, name);
      table.sets.delete(name);
      return;
    case "flowtable":
      delete table.flowtable;
      return;
    case "ct timeout":
      memberOf(table.timeouts ?? new Map(), name);
      table.timeouts?.delete(name);
      return;
    case "element": {
      const { spec, elements } = memberOf(table.sets, name);
      for (const item of asList(object.elem, "elements")) {
        const { key } = splitElement(item, spec.value !== undefined && Array.isArray(item));
        if (!elements.delete(keyText(unwrapKey(key), spec)))
          throw notUnderstood("removal of a missing element", item);
      }
      return;
    }
    default:
      throw notUnderstood(`removal of "${kind}"`, object);
  }
}

function flush(draft: Draft, kind: string, object: JsonObject): void {
  const family = ownFamily(kind, object);
  if (family === undefined) return;
  const table = tableOf(draft, family);
  switch (kind) {
    case "table":
      for (const chain of table.chains.values()) chain.rules.length = 0;
      return;
    case "chain":
      memberOf(table.chains, object.name).rules.length = 0;
      return;
    case "set":
    case "map":
      memberOf(table.sets, object.name).elements.clear();
      return;
    default:
      throw notUnderstood(`flush of "${kind}"`, object);
  }
}
