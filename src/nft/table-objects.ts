import { conntrackDefaults } from "../base/conntrack-defaults.ts";
import type { Chain, Flowtable, SetSpec, Table, TimeoutPolicy } from "./ast/ruleset.ts";

/** The objects of a table, by nft's names of their kinds. Sets and maps are without their elements. */
export interface ObjectKinds {
  readonly set: SetSpec;
  readonly flowtable: Flowtable;
  readonly "ct timeout": TimeoutPolicy;
  readonly chain: Chain;
}

export type ObjectKind = keyof ObjectKinds;

/** An object that is added (no `before`), deleted (no `after`) or changed. */
export type ObjectChange<Some extends ObjectKind = ObjectKind> = {
  [Kind in Some]: {
    readonly kind: Kind;
    readonly name: string;
    readonly before?: ObjectKinds[Kind] | undefined;
    readonly after?: ObjectKinds[Kind] | undefined;
  };
}[Some];

interface Operations<Value> {
  readonly in: (table: Table) => ReadonlyMap<string, Value>;
  /** The table with these objects. New sets are empty. */
  readonly put: (table: Table, objects: ReadonlyMap<string, Value>) => Table;
  readonly isSame: (actual: Value, desired: Value) => boolean;
  /** Whether one becomes the other in place; absent if its table must be recreated for any change. */
  readonly isChangeable?: (actual: Value, desired: Value) => boolean;
}

const OPERATIONS: { readonly [Kind in ObjectKind]: Operations<ObjectKinds[Kind]> } = {
  set: {
    in: ({ sets }) => new Map(Array.from(sets, ([name, { spec }]) => [name, spec])),
    put: (table, specs) => ({
      ...table,
      sets: new Map(
        Array.from(specs, ([name, spec]) => [name, table.sets.get(name) ?? { spec, elements: new Map() }]),
      ),
    }),
    isSame: sameSpec,
  },
  flowtable: {
    in: ({ flowtable }) => new Map(flowtable && [[flowtable.name, flowtable]]),
    put: ({ flowtable: _, ...table }, flowtables) => {
      const [flowtable] = flowtables.values();
      return { ...table, ...(flowtable && { flowtable }) };
    },
    isSame: (a, b) => a.hook === b.hook && a.prio === b.prio,
  },
  "ct timeout": {
    in: ({ timeouts = new Map() }) => timeouts,
    put: (table, timeouts) => ({ ...table, timeouts }),
    isSame: sameTimeouts,
  },
  chain: {
    in: ({ chains }) => chains,
    put: (table, chains) => ({ ...table, chains }),
    isSame: sameChain,
    isChangeable: (a, b) => (a.base === undefined) === (b.base === undefined),
  },
};

/** The kinds in the order in which the kernel needs their declarations. */
export const OBJECT_KINDS: readonly ObjectKind[] = ["set", "flowtable", "ct timeout", "chain"];

/** The changes of objects of one kind. */
export function ofKind<Kind extends ObjectKind>(
  changes: readonly ObjectChange[],
  kind: Kind,
): readonly ObjectChange<Kind>[] {
  return changes.filter((change) => change.kind === kind) as readonly unknown[] as ObjectChange<Kind>[];
}

/** The object of a table with a kind and a name; undefined if there is none. */
export function objectIn<Kind extends ObjectKind>(
  table: Table,
  { kind, name }: { readonly kind: Kind; readonly name: string },
): ObjectKinds[Kind] | undefined {
  return OPERATIONS[kind].in(table).get(name);
}

/** The table before some changes. */
export function withoutChanges(table: Table, changes: readonly ObjectChange[]): Table {
  return OBJECT_KINDS.reduce((before, kind) => withoutKind(before, kind, changes), table);
}

function withoutKind<Kind extends ObjectKind>(
  table: Table,
  kind: Kind,
  changes: readonly ObjectChange[],
): Table {
  const own = ofKind(changes, kind);
  if (own.length === 0) return table;
  const objects = new Map(OPERATIONS[kind].in(table));
  for (const { name, before } of own) {
    if (before === undefined) objects.delete(name);
    else objects.set(name, before);
  }
  return OPERATIONS[kind].put(table, objects);
}

/** The changes that turn the objects of one table, if there is one, into those of another. */
export function objectChanges(actual: Table | undefined, desired: Table): ObjectChange[] {
  return OBJECT_KINDS.flatMap((kind) => changesOfKind(kind, actual, desired));
}

function changesOfKind<Kind extends ObjectKind>(kind: Kind, actual: Table | undefined, desired: Table) {
  const operations = OPERATIONS[kind];
  const [before, after] = [actual && operations.in(actual), operations.in(desired)];
  const names = new Set([...after.keys(), ...(before?.keys() ?? [])]);
  return [...names].flatMap((name) => changeOf(kind, name, before?.get(name), after.get(name)));
}

/** The change between two states of an object, undefined if it does not exist; none if they are the same. */
export function changeOf<Kind extends ObjectKind>(
  kind: Kind,
  name: string,
  before: ObjectKinds[Kind] | undefined,
  after: ObjectKinds[Kind] | undefined,
): ObjectChange[] {
  const isSame =
    before === undefined || after === undefined ? before === after : OPERATIONS[kind].isSame(before, after);
  return isSame ? [] : [{ kind, name, before, after } as ObjectChange];
}

/** Whether the kernel can make a change only in a table that is recreated. */
export function needsNewTable<Kind extends ObjectKind>({ kind, before, after }: ObjectChange<Kind>): boolean {
  if (before === undefined || after === undefined) return false;
  return OPERATIONS[kind].isChangeable?.(before, after) !== true;
}

function sameSpec(a: SetSpec, b: SetSpec): boolean {
  const properties = Object.keys({ ...a, ...b }) as (keyof SetSpec)[];
  // As JSON, because lists of types are equal if their members are.
  return properties.every((property) => JSON.stringify(a[property]) === JSON.stringify(b[property]));
}

/**
 * Whether an object has the desired timeouts. Defaults are not listed, and may differ in another version of
 * nft: such a value counts as desired.
 */
function sameTimeouts(actual: TimeoutPolicy, desired: TimeoutPolicy): boolean {
  const defaults = conntrackDefaults(desired.protocol);
  return (
    actual.protocol === desired.protocol &&
    Object.entries(desired.policy).every(([state, wanted]) => {
      const is = actual.policy[state];
      return is === wanted || is === defaults[state];
    })
  );
}

/** Whether two chains have the same hook and canonical rules. */
export function sameChain(a: Chain, b: Chain): boolean {
  // Usually the same object: thousands of frontends may share a chain, and each writes it.
  return a === b || (sameBase(a, b) && JSON.stringify(a.rules) === JSON.stringify(b.rules));
}

/** Whether a chain that exists gets another hook, priority or policy, and must be deleted before. */
export function isReplacedChain({ before, after }: ObjectChange<"chain">): boolean {
  return before !== undefined && after !== undefined && !sameBase(before, after);
}

function sameBase({ base: a }: Chain, { base: b }: Chain): boolean {
  return a?.type === b?.type && a?.hook === b?.hook && a?.prio === b?.prio && a?.policy === b?.policy;
}
