import { isDeepStrictEqual } from "node:util";
import { applyTransaction } from "../../src/nft/apply.ts";
import { verdictTarget } from "../../src/nft/elements.ts";
import type { Command, CommandObject, Transaction } from "../../src/nft/json.ts";
import type { Ruleset, Table } from "../../src/nft/ruleset.ts";

/**
 * The kernel's nf_tables as far as our transactions know it: all of a transaction or nothing, command by command, with
 * the kernel's refusals (Linux 6.18): a key that has another value, a deleted element that is not there, a deleted
 * chain or set that is in use, an unknown chain or set, a declaration that differs from what is there.
 */
export class FakeKernel {
  ruleset: Ruleset = {};

  /** Applies a transaction; throws, and changes nothing, if the kernel would refuse it. */
  apply(transaction: Transaction): void {
    let draft = this.ruleset;
    for (const command of transaction.nftables) {
      const after = applyTransaction(draft, { nftables: [command] });
      const reason = refusal(draft, after, command);
      if (reason !== undefined) throw new Error(`refused: ${reason}: ${JSON.stringify(command).slice(0, 300)}`);
      draft = after;
    }
    this.ruleset = draft;
  }
}

function refusal(before: Ruleset, after: Ruleset, command: Command): string | undefined {
  if ("add" in command) return refusedAddition(before, after, command.add);
  return "delete" in command ? refusedDeletion(after, command.delete) : undefined;
}

function refusedAddition(before: Ruleset, after: Ruleset, object: CommandObject): string | undefined {
  if ("table" in object) return undefined;
  const table = tableAt(after, object);
  const earlier = before[table.family];
  if ("chain" in object) {
    const { type, hook, prio, policy, name } = object.chain;
    const base = type === undefined ? undefined : { type, hook, prio, policy };
    return isDeepStrictEqual(base, table.chains.get(name)?.base) ? undefined : "the chain exists with another hook";
  }
  if ("rule" in object) return missingReference(table, JSON.stringify(object.rule.expr));
  if ("element" in object) return refusedElements(table, earlier, object.element.name);
  const declared = "set" in object ? object.set : object.map;
  const alone: Command[] = [{ add: { table: { family: table.family, name: table.name } } }, { add: object }];
  const spec = applyTransaction({}, { nftables: alone })[table.family]?.sets.get(declared.name)?.spec;
  return isDeepStrictEqual(spec, table.sets.get(declared.name)?.spec) ? undefined : "the set exists with another type";
}

function refusedElements(table: Table, earlier: Table | undefined, name: string): string | undefined {
  for (const [key, value] of table.sets.get(name)?.elements ?? []) {
    const known = earlier?.sets.get(name)?.elements.get(key);
    if (known !== undefined && known !== value) return `${key} exists with another value`;
    const target = verdictTarget(value);
    if (target !== undefined && !isRegularChain(table, target)) return `no chain ${target}`;
  }
  return undefined;
}

function refusedDeletion(after: Ruleset, object: CommandObject): string | undefined {
  if ("table" in object || "element" in object || "rule" in object) return undefined;
  const table = tableAt(after, object);
  const rules = JSON.stringify([...table.chains.values()].flatMap((chain) => chain.rules));
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

function missingReference(table: Table, rule: string): string | undefined {
  for (const [, name = ""] of rule.matchAll(/"target":"([^"]+)"/g)) {
    if (!isRegularChain(table, name)) return `no chain ${name}`;
  }
  for (const [, name = ""] of rule.matchAll(/"@([^"]+)"/g)) if (!table.sets.has(name)) return `no set ${name}`;
  return undefined;
}

function isRegularChain(table: Table, name: string): boolean {
  const chain = table.chains.get(name);
  return chain !== undefined && chain.base === undefined;
}

function tableAt(ruleset: Ruleset, object: Exclude<CommandObject, { readonly table: unknown }>): Table {
  const [body] = Object.values(object) as { readonly family: "ip" | "ip6" }[];
  const table = body === undefined ? undefined : ruleset[body.family];
  if (table === undefined) throw new Error("a command on a missing table was applied");
  return table;
}
