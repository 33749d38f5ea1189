import type { Family } from "../base/family.ts";
import type { Command, CommandObject, Rule, Transaction, TypeJson } from "./ast/json.ts";
import {
  type Chain,
  type Flowtable,
  type Ruleset,
  type SetSpec,
  TABLE_NAME,
  type Table,
} from "./ast/ruleset.ts";
import { declaringExpression } from "./data-types.ts";
import { deltaSize, type ElementsDelta, hasIntervals, isEmptyDelta, type TableDelta } from "./delta.ts";
import { addedElements, deletedElements, type Element, verdictTarget } from "./elements.ts";

/**
 * Writes deltas as one transaction. The order inside a table is what the kernel asks for: a chain is declared
 * before something leads to it, and loses all that leads to it before it is deleted.
 */
export function toTransaction(deltas: readonly TableDelta[]): Transaction {
  return { nftables: deltas.flatMap(tableCommands) };
}

/** The creation of tables in several transactions, each made when it is asked for: as JSON, elements take ten times their memory. */
export interface CreationSteps {
  /** Declares everything but base chains. Before all others. */
  readonly declaration: Transaction;
  /** Each adds elements, so that they may come in any order and at the same time. */
  readonly elements: Generator<Transaction>;
  /** Makes the base chains: until then no packet sees anything half-made. After all others. */
  readonly activation: Transaction;
}

/**
 * Writes the creation of tables as transactions of at most `size` elements each, so that nft's memory stays small (3 kB
 * for each element of a transaction, nft 1.1.3).
 */
export function creationSteps(deltas: readonly TableDelta[], size: number): CreationSteps {
  const chains = ({ writtenChains }: TableDelta, areBase: boolean): Chain[] =>
    writtenChains.filter(({ base }) => (base !== undefined) === areBase);
  return {
    declaration: toTransaction(
      deltas.map((delta) => ({ ...delta, writtenChains: chains(delta, false), elements: [] })),
    ),
    elements: elementChunks(
      deltas.flatMap((delta) => delta.elements.map((elements) => ({ delta, elements }))),
      size,
    ),
    activation: toTransaction(
      deltas.map((delta) => ({ ...onlyElements(delta, []), writtenChains: chains(delta, true) })),
    ),
  };
}

/**
 * Writes changes of existing tables as transactions of at most `size` elements each, to be applied one after the other. What
 * packets meet is whole after each of them: at first elements come, entries last; then elements get other values; and at
 * last elements go, entries first.
 * @param deltas that {@link canChangeInSteps}
 * @param entries the sets by whose elements packets come to those of others, in the order in which packets meet them
 */
export function* changeSteps(
  deltas: readonly TableDelta[],
  size: number,
  entries: readonly string[],
): Generator<Transaction> {
  const { main, deletions } = withoutChainDeletions(deltas);
  const declarations = main
    .map((delta) => ({ ...delta, elements: [] }))
    .filter((delta) => !isEmptyDelta(delta));
  if (declarations.length > 0) yield toTransaction(declarations);
  yield* elementSteps(deltas, size, entries);
  if (deletions.length > 0) yield toTransaction(deletions);
}

/**
 * Deletes elements that packets have put into a dynamic map, whether or not their time is over. The kernel refuses it where
 * one has another value by now.
 */
export function forgetTransaction(family: Family, spec: SetSpec, elements: readonly Element[]): Transaction {
  return { nftables: endingDeletions(family, TABLE_NAME, spec, elements) };
}

/**
 * Splits changes of existing tables in two where verdicts lead to new chains. A packet under way meets the newest verdicts, but
 * chains as they were before, and a new one had no rules then: so chains come first, and what leads to them next.
 * @param stale deletions of chains that the kernel still has: one that is wanted again is not new
 * @returns no chains where one transaction does
 */
export function newChainsFirst(
  deltas: readonly TableDelta[],
  stale: readonly TableDelta[],
): {
  readonly chains: readonly TableDelta[];
  readonly others: readonly TableDelta[];
} {
  const parts = deltas.map((delta) => {
    if (delta.mode !== "change") return { chains: onlyElements(delta, []), others: delta, isNeeded: false };
    const there = stale.flatMap(({ family, deletedChains }) =>
      family === delta.family ? deletedChains : [],
    );
    const known = new Set([...delta.changedChains, ...there]);
    const isNew = ({ name, base }: Chain) => base === undefined && !known.has(name);
    const writtenChains = delta.writtenChains.filter(isNew);
    const names = new Set(writtenChains.map(({ name }) => name));
    return {
      chains: { ...onlyElements(delta, []), addedSets: delta.addedSets, writtenChains },
      others: {
        ...delta,
        addedSets: [],
        writtenChains: delta.writtenChains.filter((chain) => !isNew(chain)),
      },
      isNeeded: delta.elements.some(({ added }) =>
        added.some(({ value }) => names.has(verdictTarget(value) ?? "")),
      ),
    };
  });
  if (!parts.some(({ isNeeded }) => isNeeded)) return { chains: [], others: deltas };
  return {
    chains: parts.map(({ chains }) => chains).filter((delta) => !isEmptyDelta(delta)),
    others: parts.map(({ others }) => others).filter((delta) => !isEmptyDelta(delta)),
  };
}

/** Writes changes as transactions that the kernel may be asked about one by one: each has at most `size` elements, and all that these need. */
export function* trialSteps(deltas: readonly TableDelta[], size: number): Generator<Transaction> {
  if (deltaSize(deltas).elements <= size) {
    yield toTransaction(deltas);
    return;
  }
  const declarations = toTransaction(deltas.map((delta) => ({ ...delta, elements: [] }))).nftables;
  for (const { nftables } of elementSteps(deltas, size, [])) {
    yield { nftables: [...declarations, ...nftables] };
  }
}

function* elementSteps(
  deltas: readonly TableDelta[],
  size: number,
  entrySets: readonly string[],
): Generator<Transaction> {
  const isNew = ({ addedSets }: TableDelta, set: string) => addedSets.some(({ name }) => name === set);
  // Those of new sets are first: other elements lead to the chains that look into these.
  const parts = deltas
    .flatMap((delta) =>
      delta.elements.flatMap((elements) =>
        hasIntervals(elements.spec) ? [] : [{ delta, ...steps(elements) }],
      ),
    )
    .sort((a, b) => Number(isNew(b.delta, b.added.spec.name)) - Number(isNew(a.delta, a.added.spec.name)));
  const entries = entrySets.flatMap((set) => parts.filter(({ added }) => added.spec.name === set));
  const others = parts.filter((part) => !entries.includes(part));
  const chunks = (from: typeof parts, step: keyof ElementSteps) =>
    elementChunks(
      from.map((part) => ({ delta: part.delta, elements: part[step] })),
      size,
    );
  // A set of limited size may be full.
  const isLimited = ({ added }: (typeof parts)[number]) => added.spec.size !== undefined;
  yield* chunks(others.filter(isLimited), "deleted");
  yield* chunks(others, "added");
  yield* chunks(entries, "added");
  yield* chunks(parts, "replaced");
  // At once, for no two ranges may overlap: whoever is served by one that goes is served by one that comes.
  const ranges = deltas.flatMap((delta) => {
    const elements = delta.elements.filter(({ spec }) => hasIntervals(spec));
    return elements.length === 0 ? [] : [onlyElements(delta, elements)];
  });
  if (ranges.length > 0) yield toTransaction(ranges);
  yield* chunks(entries.toReversed(), "deleted");
  yield* chunks(
    others.filter((part) => !isLimited(part)),
    "deleted",
  );
}

/** Whether changes may come into force one by one: no chain that packets pass gets other rules, which may need other elements. */
export function canChangeInSteps({ mode, changedChains, replacedChains }: TableDelta): boolean {
  return mode === "change" && changedChains.length + replacedChains.length === 0;
}

interface ElementSteps {
  readonly added: ElementsDelta;
  readonly replaced: ElementsDelta;
  readonly deleted: ElementsDelta;
}

function steps({ spec, deleted, added }: ElementsDelta): ElementSteps {
  const gone = new Set(added.length === 0 ? [] : deleted);
  const replaced = gone.size === 0 ? [] : added.filter(({ key }) => gone.has(key));
  const stays = new Set(replaced.map(({ key }) => key));
  return {
    added: { spec, deleted: [], added: gone.size === 0 ? added : added.filter(({ key }) => !gone.has(key)) },
    replaced: { spec, deleted: replaced.map(({ key }) => key), added: replaced },
    deleted: {
      spec,
      deleted: stays.size === 0 ? deleted : deleted.filter((key) => !stays.has(key)),
      added: [],
    },
  };
}

/** Elements that come, go or are replaced, in chunks of `size`. */
function* elementChunks(
  parts: Iterable<{ readonly delta: TableDelta; readonly elements: ElementsDelta }>,
  size: number,
): Generator<Transaction> {
  let chunk: TableDelta[] = [];
  let room = size;
  for (const { delta, elements } of parts) {
    const { spec, deleted, added } = elements;
    const count = Math.max(deleted.length, added.length);
    for (let from = 0; from < count; ) {
      const until = Math.min(count, from + room);
      const part = { spec, deleted: deleted.slice(from, until), added: added.slice(from, until) };
      chunk.push(onlyElements(delta, [part]));
      room -= until - from;
      from = until;
      if (room > 0) continue;
      yield toTransaction(chunk);
      chunk = [];
      room = size;
    }
  }
  if (chunk.length > 0) yield toTransaction(chunk);
}

/** A delta of an existing table that changes elements alone. */
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

/** What the names of chains end with that translate while tables are made anew, and of maps that stand in for one that is. */
const HANDOVER = "-handover";

/**
 * Adds to tables that are made anew what lets no packet through untranslated: the kernel puts a new hook before the others of
 * its priority (nf_hook_entries_grow) and asks at each hook which rules are in force, so that a packet can meet the new rules
 * before they are, and then the old ones when they no longer are (6.18: 5 % of such transactions lost one of 70,000 new connections a
 * second). These chains, with the same rules, are behind both, until {@link handoverEnd}.
 */
export function withHandover(delta: TableDelta): TableDelta {
  const chains = handoverChains(delta);
  return chains.length === 0 ? delta : { ...delta, writtenChains: [...delta.writtenChains, ...chains] };
}

/** Deletes what {@link withHandover} added; none where it added nothing. */
export function handoverEnd(deltas: readonly TableDelta[]): TableDelta[] {
  return deltas
    .map((delta) => ({
      ...onlyElements(delta, []),
      deletedChains: handoverChains(delta).map(({ name }) => name),
    }))
    .filter((delta) => !isEmptyDelta(delta));
}

function handoverChains({ mode, writtenChains }: TableDelta): Chain[] {
  if (mode !== "recreate") return [];
  return writtenChains.flatMap(({ name, base, rules: of }) =>
    base?.type === "nat"
      ? [{ name: name + HANDOVER, base: { ...base, prio: base.prio + 1 }, rules: of }]
      : [],
  );
}

/** Changes with what goes before and after them. */
export interface MapHandover {
  readonly begin: readonly TableDelta[];
  readonly main: readonly TableDelta[];
  readonly end: readonly TableDelta[];
}

/**
 * Has packets look into a second map while intervals of a map are replaced. The kernel has no active elements in a map that goes
 * (nft_map_deactivate), and shows new intervals only at the end of a commit (nft_set_commit_update), while packets have the new
 * rules from its beginning on (6.18: 9 % of such transactions refused one of 20,000 new flows a second).
 * @returns nothing before and after where nothing is replaced, or where the chains that look into the map change as well
 */
export function mapHandover(deltas: readonly TableDelta[]): MapHandover {
  const parts = deltas.flatMap((delta) => {
    const maps = delta.elements.filter((elements) => isReplaced(elements, delta));
    return maps.length === 0 ? [] : [{ delta, maps, ...lookingTwice(maps) }];
  });
  return {
    begin: parts.map(({ delta, maps, twice }) => ({
      ...onlyElements(
        delta,
        maps.map(({ spec, added, intervals }) => ({
          spec: secondMap(spec),
          deleted: [],
          added: intervals?.anew === undefined ? added : elementsOf(intervals.anew),
        })),
      ),
      addedSets: maps.map(({ spec }) => secondMap(spec)),
      writtenChains: twice,
      changedChains: twice.map(({ name }) => name),
    })),
    main: deltas.map((delta) => {
      const part = parts.find((one) => one.delta === delta);
      return part === undefined ? delta : { ...delta, elements: delta.elements.map(withUsers(part.twice)) };
    }),
    end: parts.map(({ delta, maps, once }) => ({
      ...onlyElements(delta, []),
      deletedSets: maps.map(({ spec }) => secondMap(spec)),
      writtenChains: once,
      changedChains: once.map(({ name }) => name),
    })),
  };
}

/** Whether packets could miss intervals while a change comes into force. */
function isReplaced({ added, intervals }: ElementsDelta, { writtenChains }: TableDelta): boolean {
  if (intervals === undefined || (intervals.anew === undefined && added.length === 0)) return false;
  return !writtenChains.some(({ name }) => intervals.users.some((user) => user.name === name));
}

/** The chains that look into maps, as they are to be, and as they look into the second maps where they found nothing in the first. */
function lookingTwice(maps: readonly ElementsDelta[]): {
  readonly once: readonly Chain[];
  readonly twice: readonly Chain[];
} {
  const users = new Map(
    maps.flatMap(({ intervals }) => (intervals?.users ?? []).map((user) => [user.name, user])),
  );
  const again = (rule: Rule) =>
    maps.reduce(
      (text, { spec: { name } }) => text.replaceAll(`"@${name}"`, `"@${name}${HANDOVER}"`),
      JSON.stringify(rule),
    );
  const twice = (rule: Rule) => {
    const second = again(rule);
    return second === JSON.stringify(rule) ? [rule] : [rule, JSON.parse(second) as Rule];
  };
  const once = [...users.values()];
  return { once, twice: once.map((chain) => ({ ...chain, rules: chain.rules.flatMap(twice) })) };
}

function withUsers(chains: readonly Chain[]): (delta: ElementsDelta) => ElementsDelta {
  const byName = new Map(chains.map((chain) => [chain.name, chain]));
  return (delta) => {
    const { intervals } = delta;
    if (intervals === undefined) return delta;
    return {
      ...delta,
      intervals: { ...intervals, users: intervals.users.map((one) => byName.get(one.name) ?? one) },
    };
  };
}

function secondMap(spec: SetSpec): SetSpec {
  return { ...spec, name: spec.name + HANDOVER };
}

function elementsOf(elements: ReadonlyMap<string, string>): readonly Element[] {
  return Array.from(elements, ([key, value]) => ({ key, value }));
}

/**
 * A transaction that makes both tables whole whatever is in them, and keeps the contents of dynamic maps: every
 * chain and set of ours is declared, emptied and filled. It is what `dump` prints and what is used when the
 * kernel's tables cannot be read.
 */
export function rebuildTransaction(desired: Ruleset): Transaction {
  return { nftables: Object.values(desired).flatMap(rebuildCommands) };
}

/** A transaction that removes our tables. nft has no `destroy` before 1.0.8, so each is added before it is deleted. */
export function removalTransaction(
  tables: readonly { readonly family: Family; readonly name: string }[],
): Transaction {
  return { nftables: tables.flatMap((table) => [{ add: { table } }, { delete: { table } }]) };
}

/**
 * Takes the deletions of chains out of deltas, and with them those of sets and flow tables, which these chains may use. Some
 * kernels before 6.2 answer EBUSY when a chain is deleted in the transaction that takes away the last element that led to it.
 */
export function withoutChainDeletions(deltas: readonly TableDelta[]): {
  readonly main: TableDelta[];
  readonly deletions: TableDelta[];
} {
  return {
    main: deltas.map(({ deletedFlowtable: _, ...delta }) => ({
      ...delta,
      deletedChains: [],
      deletedSets: [],
    })),
    deletions: deltas
      .map((delta) => {
        const { deletedChains, deletedSets, deletedFlowtable } = delta;
        const flowtable = deletedFlowtable === undefined ? {} : { deletedFlowtable };
        return { ...onlyElements(delta, []), deletedChains, deletedSets, ...flowtable };
      })
      .filter((delta) => !isEmptyDelta(delta)),
  };
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
    ...chains.map((chain) => ({ add: declaredChain(family, name, chain) })),
    ...chains.map((chain) => ({ flush: { chain: { family, table: name, name: chain.name } } })),
    ...filled.map(({ spec }) => ({ flush: setReference(family, name, spec) })),
    ...chains.flatMap((chain) => rules(family, name, chain)),
    ...filled.flatMap(({ spec, elements }) =>
      elements.size === 0
        ? []
        : [
            {
              add: addedElements(
                family,
                name,
                spec,
                [...elements].map(([key, value]) => ({ key, value })),
              ),
            },
          ],
    ),
  ];
}

function rules(family: Family, table: string, chain: Chain): Command[] {
  return chain.rules.map((expr) => ({ add: { rule: { family, table, chain: chain.name, expr } } }));
}

/** Maps that are made anew, but for their elements, and the rules that look into them. */
function replacements({ family, table, elements, writtenChains }: TableDelta): Command[] {
  const maps = elements.flatMap(({ spec, intervals }) =>
    intervals?.anew === undefined ? [] : [{ spec, users: intervals.users }],
  );
  const written = new Set(writtenChains.map(({ name }) => name));
  const users = new Map(maps.flatMap((map) => map.users.map((user) => [user.name, user] as const)));
  // Those that are written have no rules yet, and get them next.
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

/** An element with a timeout may have ended in the kernel, which refuses to delete what is not there: it is added before. */
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

function flowtableReference(family: Family, table: string, { name }: Flowtable): CommandObject {
  return { flowtable: { family, table, name } };
}

/**
 * Adds devices to the flow table of a table, which keeps those that it has.
 * @param devices names of network interfaces; older kernels (before 6.16) refuse one that there is not
 */
export function flowtableAddition({ family, name, flowtable }: Table, devices: readonly string[]): Command[] {
  if (flowtable === undefined || devices.length === 0) return [];
  return [{ add: { flowtable: { family, table: name, ...flowtable, dev: devices } } }];
}

/**
 * Makes the flow table of a table anew with other devices: nft's JSON cannot take devices out of one (1.1.3). All connections
 * leave the fast path, and come back with their next packet.
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

function flagsOf({ dynamic, timeout, interval }: SetSpec): { readonly flags?: readonly string[] } {
  if (dynamic) return { flags: ["dynamic", "timeout"] };
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
