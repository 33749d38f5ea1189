import { isDeepStrictEqual } from "node:util";
import type { Family } from "../../src/base/family.ts";
import type { Command, CommandObject, Transaction } from "../../src/nft/ast/json.ts";
import { type ElementSet, TABLE_NAME, type Table } from "../../src/nft/ast/ruleset.ts";
import type { Draft } from "../../src/nft/canonical/parse.ts";
import { verdictTarget } from "../../src/nft/elements.ts";
import { applyCommand, draftOf } from "./apply-transaction.ts";

/**
 * A fake of the kernel's nf_tables for our transactions. It applies the commands of a transaction in order,
 * all or none. It refuses what the kernel refuses (Linux 6.18): a key with another value, a missing deleted
 * element, deletion of a chain or set in use, an unknown chain or set, a declaration that differs from the
 * existing one, overlapping ranges.
 */
export class FakeKernel {
  ruleset: Draft = {};

  /** Applies a transaction. If the kernel would refuse it, throws and changes nothing. */
  apply(transaction: Transaction): void {
    const draft = draftOf(this.ruleset);
    for (const command of transaction.nftables) {
      const reason = "add" in command ? refusedAddition(draft, command.add) : undefined;
      applyCommand(draft, command);
      const inUse = "delete" in command ? refusedDeletion(draft, command.delete) : undefined;
      if (reason ?? inUse)
        throw new Error(`refused: ${reason ?? inUse}: ${JSON.stringify(command).slice(0, 300)}`);
    }
    this.ruleset = draft;
  }
}

type Member = Exclude<CommandObject, { readonly table: unknown }>;

function refusedAddition(draft: Draft, object: CommandObject): string | undefined {
  if ("table" in object) return undefined;
  const table = tableOf(draft, object);
  if ("rule" in object) return missingReference(table, JSON.stringify(object.rule.expr));
  if ("element" in object) return refusedElements(table, object);
  const declared = alone(table.family, { add: object });
  for (const [name, chain] of declared.chains) {
    const known = table.chains.get(name);
    if (known !== undefined && !isDeepStrictEqual(known.base, chain.base))
      return "the chain exists with another hook";
  }
  for (const [name, { spec }] of declared.sets) {
    const known = table.sets.get(name);
    if (known !== undefined && !isDeepStrictEqual(known.spec, spec))
      return "the set exists with another type";
  }
  return undefined;
}

function refusedElements(
  table: Table,
  object: Extract<Member, { readonly element: unknown }>,
): string | undefined {
  const set = table.sets.get(object.element.name);
  if (set === undefined) return `no set ${object.element.name}`;
  const added =
    alone(table.family, { add: object }, set).sets.get(set.spec.name)?.elements ?? new Map<string, string>();
  const overlapping =
    set.spec.interval && set.spec.key.length > 1 ? overlap([...set.elements, ...added]) : undefined;
  if (overlapping !== undefined) return `${overlapping} overlaps another range`;
  for (const [key, value] of added) {
    const known = set.elements.get(key);
    if (known !== undefined && known !== value) return `${key} exists with another value`;
    const target = verdictTarget(value);
    if (target !== undefined && !isRegularChain(table, target)) return `no chain ${target}`;
  }
  return undefined;
}

/** Returns a port range of a map that overlaps another one. */
function overlap(elements: readonly (readonly [string, string])[]): string | undefined {
  const ranges = [...new Set(elements.map(([key]) => key))].map((key) => {
    const [place, ports = ""] = [key.slice(0, key.lastIndexOf(" ")), key.split(" ").at(-1)];
    const [first = 0, last = 0] = ports.split("-").map(Number);
    return { key, place, first, last };
  });
  const sorted = ranges.sort((a, b) =>
    a.place === b.place ? a.first - b.first : a.place < b.place ? -1 : 1,
  );
  return sorted.find(({ place, first }, index) => {
    const before = sorted[index - 1];
    return before?.place === place && before.last >= first;
  })?.key;
}

function refusedDeletion(draft: Draft, object: CommandObject): string | undefined {
  if ("table" in object || "element" in object || "rule" in object) return undefined;
  const table = tableOf(draft, object);
  const rules = JSON.stringify([...table.chains.values()].flatMap((chain) => chain.rules));
  if ("flowtable" in object) return rules.includes('"flow":') ? "the flow table is in use" : undefined;
  if ("ct timeout" in object) {
    return rules.includes(`"ct timeout":"${object["ct timeout"].name}"`)
      ? "a rule uses the object"
      : undefined;
  }
  if (!("chain" in object)) {
    const { name } = "set" in object ? object.set : object.map;
    return rules.includes(`"@${name}"`) ? "the set is in use" : undefined;
  }
  const { name } = object.chain;
  if (rules.includes(`"target":"${name}"`)) return "a rule leads to the chain";
  const leads = [...table.sets.values()].some(({ elements }) =>
    [...elements.values()].some((value) => verdictTarget(value) === name),
  );
  return leads ? "an element leads to the chain" : undefined;
}

/** Returns the effect of a command on a table that is empty, or has one set without elements if given. */
function alone(family: Family, command: Command, set?: ElementSet): Table {
  const table = { family, name: TABLE_NAME, chains: new Map(), sets: new Map<string, ElementSet>() };
  if (set !== undefined) table.sets.set(set.spec.name, { spec: set.spec, elements: new Map() });
  applyCommand({ [family]: table }, command);
  return table;
}

function missingReference(table: Table, rule: string): string | undefined {
  for (const [, name = ""] of rule.matchAll(/"target":"([^"]+)"/g)) {
    if (!isRegularChain(table, name)) return `no chain ${name}`;
  }
  for (const [, name = ""] of rule.matchAll(/"@([^"]+)"/g))
    if (!table.sets.has(name) && table.flowtable?.name !== name) return `no set ${name}`;
  for (const [, name = ""] of rule.matchAll(/"ct timeout":"([^"]+)"/g))
    if (!table.timeouts?.has(name)) return `no object ${name}`;
  return undefined;
}

function isRegularChain(table: Table, name: string): boolean {
  const chain = table.chains.get(name);
  return chain !== undefined && chain.base === undefined;
}

function tableOf(draft: Draft, object: Member): Table {
  const [body] = Object.values(object) as { readonly family: Family }[];
  const table = body === undefined ? undefined : draft[body.family];
  if (table === undefined) throw new Error(`refused: no table for ${JSON.stringify(object).slice(0, 300)}`);
  return table;
}
