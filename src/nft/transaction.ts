import type { Family } from "../base/family.ts";
import type { Command, CommandObject, Transaction, TypeJson } from "./ast/json.ts";
import {
  type Chain,
  type Flowtable,
  type Ruleset,
  type SetSpec,
  TABLE_NAME,
  type Table,
  type TimeoutPolicy,
} from "./ast/ruleset.ts";
import { declaringExpression } from "./data-types.ts";
import type { ElementsDelta, TableDelta } from "./delta.ts";
import { addedElements, deletedElements, type Element, elementsOf } from "./elements.ts";

/**
 * Writes deltas as one transaction. The order within a table is the one that the kernel requires: a chain is
 * declared before anything leads to it, and deleted after everything that led to it.
 */
export function toTransaction(deltas: readonly TableDelta[]): Transaction {
  return { nftables: deltas.flatMap(tableCommands) };
}

/**
 * Deletes elements that packets have added to a dynamic map, whether or not they have expired. The kernel
 * refuses this if the value of one of them has changed meanwhile.
 */
export function deletionTransaction(
  family: Family,
  spec: SetSpec,
  elements: readonly Element[],
): Transaction {
  return { nftables: endingDeletions(family, TABLE_NAME, spec, elements) };
}

/** A delta of an existing table that changes only elements. */
export function onlyElements(
  { family, table }: Pick<TableDelta, "family" | "table">,
  elements: readonly ElementsDelta[],
): TableDelta {
  return {
    family,
    table,
    mode: "change",
    addedSets: [],
    deletedSets: [],
    writtenChains: [],
    changedChains: [],
    replacedChains: [],
    deletedChains: [],
    elements,
  };
}

/**
 * A transaction that restores both tables regardless of their contents, and keeps the contents of dynamic
 * maps: it declares, empties and fills each of our chains and sets. `dump` prints it, and it is sent if the
 * kernel's tables cannot be read.
 */
export function rebuildTransaction(desired: Ruleset): Transaction {
  return { nftables: Object.values(desired).flatMap(rebuildCommands) };
}

/**
 * A transaction that removes our tables. nft has no `destroy` before 1.0.8, so each is added before it is
 * deleted.
 */
export function removalTransaction(
  tables: readonly { readonly family: Family; readonly name: string }[],
): Transaction {
  return { nftables: tables.flatMap((table) => [{ add: { table } }, { delete: { table } }]) };
}

function tableCommands(delta: TableDelta): Command[] {
  const { family, table: name } = delta;
  const table: CommandObject = { table: { family, name } };
  const chain = (chainName: string): CommandObject => ({ chain: { family, table: name, name: chainName } });
  return [
    ...(delta.mode === "change" ? [] : [{ add: table }]),
    ...(delta.mode === "recreate" ? [{ delete: table }, { add: table }] : []),
    ...delta.addedSets.map((spec) => ({ add: declaredSet(family, name, spec) })),
    ...(delta.addedFlowtable === undefined
      ? []
      : [{ add: declaredFlowtable(family, name, delta.addedFlowtable) }]),
    ...(delta.addedTimeouts ?? []).map((policy) => ({ add: declaredTimeouts(family, name, policy) })),
    ...delta.replacedChains.flatMap((chainName) => [
      { flush: chain(chainName) },
      { delete: chain(chainName) },
    ]),
    ...delta.writtenChains.map((written) => ({ add: declaredChain(family, name, written) })),
    ...delta.elements.flatMap((elements) => deletions(family, name, elements)),
    ...delta.deletedChains.map((chainName) => ({ flush: chain(chainName) })),
    ...(delta.mode === "change"
      ? delta.writtenChains.map((written) => ({ flush: chain(written.name) }))
      : []),
    ...replacements(delta),
    ...delta.writtenChains.flatMap((written) => rules(family, name, written)),
    ...delta.elements.flatMap((elements) => additions(family, name, elements)),
    ...delta.deletedSets.map((spec) => ({ delete: setReference(family, name, spec) })),
    ...(delta.deletedFlowtable === undefined
      ? []
      : [{ delete: flowtableReference(family, name, delta.deletedFlowtable) }]),
    ...delta.deletedChains.map((chainName) => ({ delete: chain(chainName) })),
    ...(delta.deletedTimeouts ?? []).map((object) => ({
      delete: { "ct timeout": { family, table: name, name: object } },
    })),
  ];
}

function rebuildCommands(table: Table): Command[] {
  const { family, name } = table;
  const chains = [...table.chains.values()];
  const sets = [...table.sets.values()];
  const filled = sets.filter(({ spec }) => !spec.dynamic);
  return [
    { add: { table: { family, name } } },
    ...sets.map(({ spec }) => ({ add: declaredSet(family, name, spec) })),
    ...(table.flowtable === undefined ? [] : [{ add: declaredFlowtable(family, name, table.flowtable) }]),
    ...[...(table.timeouts?.values() ?? [])].map((policy) => ({
      add: declaredTimeouts(family, name, policy),
    })),
    ...chains.map((chain) => ({ add: declaredChain(family, name, chain) })),
    ...chains.map((chain) => ({ flush: { chain: { family, table: name, name: chain.name } } })),
    ...filled.map(({ spec }) => ({ flush: setReference(family, name, spec) })),
    ...chains.flatMap((chain) => rules(family, name, chain)),
    ...filled.flatMap(({ spec, elements }) =>
      elements.size === 0 ? [] : [{ add: addedElements(family, name, spec, elementsOf(elements)) }],
    ),
  ];
}

function rules(family: Family, table: string, chain: Chain): Command[] {
  return chain.rules.map((expr) => ({ add: { rule: { family, table, chain: chain.name, expr } } }));
}

/** Recreates maps, without elements, and the rules that look into them. */
function replacements({ family, table, elements, writtenChains }: TableDelta): Command[] {
  const maps = elements.flatMap(({ spec, intervals }) =>
    intervals?.anew === undefined ? [] : [{ spec, users: intervals.users }],
  );
  const written = new Set(writtenChains.map(({ name }) => name));
  const users = new Map(maps.flatMap((map) => map.users.map((user) => [user.name, user] as const)));
  // Chains that are written have no rules yet, and get them next.
  const others = [...users.values()].filter(({ name }) => !written.has(name));
  return [
    ...others.map(({ name }) => ({ flush: { chain: { family, table, name } } })),
    ...maps.flatMap(({ spec }) => [
      { delete: setReference(family, table, spec) },
      { add: declaredSet(family, table, spec) },
    ]),
    ...others.flatMap((user) => rules(family, table, user)),
  ];
}

function deletions(family: Family, table: string, { spec, deleted, intervals }: ElementsDelta): Command[] {
  if (deleted.length === 0 || intervals?.anew !== undefined) return [];
  if (spec.timeout === undefined) return [{ delete: deletedElements(family, table, spec, deleted) }];
  const known = deleted.map((key) => ({ key, value: "" }));
  return endingDeletions(family, table, spec, known);
}

/**
 * Adds elements with a timeout before it deletes them: the kernel refuses to delete a missing element, and
 * they may have expired.
 */
function endingDeletions(
  family: Family,
  table: string,
  spec: SetSpec,
  elements: readonly Element[],
): Command[] {
  const keys = elements.map(({ key }) => key);
  return [
    { add: addedElements(family, table, spec, elements) },
    { delete: deletedElements(family, table, spec, keys) },
  ];
}

function additions(family: Family, table: string, { spec, added, intervals }: ElementsDelta): Command[] {
  const all = intervals?.anew === undefined ? added : elementsOf(intervals.anew);
  return all.length === 0 ? [] : [{ add: addedElements(family, table, spec, all) }];
}

function declaredChain(family: Family, table: string, { name, base }: Chain): CommandObject {
  return { chain: { family, table, name, ...base } };
}

function declaredFlowtable(family: Family, table: string, { name, hook, prio }: Flowtable): CommandObject {
  return { flowtable: { family, table, name, hook, prio } };
}

function declaredTimeouts(
  family: Family,
  table: string,
  { name, protocol, policy }: TimeoutPolicy,
): CommandObject {
  return { "ct timeout": { family, table, name, protocol, policy } };
}

function flowtableReference(family: Family, table: string, { name }: Flowtable): CommandObject {
  return { flowtable: { family, table, name } };
}

/**
 * Adds devices to the flow table of a table, in addition to its current ones.
 * @param devices names of network interfaces; kernels before 6.16 refuse a missing one
 */
export function flowtableAddition({ family, name, flowtable }: Table, devices: readonly string[]): Command[] {
  if (flowtable === undefined || devices.length === 0) return [];
  return [{ add: { flowtable: { family, table: name, ...flowtable, dev: devices } } }];
}

/**
 * Recreates the flow table of a table with other devices, because nft's JSON cannot remove devices (1.1.3).
 * All connections leave it and return with their next packet.
 */
export function flowtableReplacement(table: Table, devices: readonly string[]): Command[] {
  const { family, name, flowtable, chains } = table;
  if (flowtable === undefined) return [];
  const users = [...chains.values()].filter(({ rules: of }) =>
    of.some((rule) => rule.some((one) => "flow" in one)),
  );
  return [
    ...users.map((chain) => ({ flush: { chain: { family, table: name, name: chain.name } } })),
    { delete: flowtableReference(family, name, flowtable) },
    {
      add: { flowtable: { family, table: name, ...flowtable, ...(devices.length > 0 && { dev: devices }) } },
    },
    ...users.flatMap((chain) => rules(family, name, chain)),
  ];
}

function declaredSet(family: Family, table: string, spec: SetSpec): CommandObject {
  const declaration = {
    family,
    table,
    name: spec.name,
    type: { typeof: declaringExpression(spec.key, "key") },
    ...flagsOf(spec),
    ...(spec.size === undefined ? {} : { size: spec.size }),
    ...(spec.timeout === undefined ? {} : { timeout: spec.timeout }),
    ...(spec.counter ? { stmt: [{ counter: null } as const] } : {}),
  };
  if (spec.value === undefined) return { set: declaration };
  return {
    map: {
      ...declaration,
      map: spec.value === "verdict" ? VERDICT_TYPE : { typeof: declaringExpression(spec.value, "value") },
    },
  };
}

function flagsOf({ dynamic, untimed, timeout, interval }: SetSpec): { readonly flags?: readonly string[] } {
  if (dynamic) return { flags: untimed ? ["dynamic"] : ["dynamic", "timeout"] };
  if (interval) return { flags: ["interval"] };
  return timeout === undefined ? {} : { flags: ["timeout"] };
}

function setReference(family: Family, table: string, { name, value }: SetSpec): CommandObject {
  return value === undefined
    ? { set: { family, table, name } }
    : { map: { family, table, name, map: VERDICT_TYPE } };
}

/** Plain `"verdict"` makes nft 1.0.6 crash when it lists the map, as names of types do: see data-types.ts. */
const VERDICT_TYPE: TypeJson = { typeof: { accept: null } };
