import { conntrackDefaults } from "../base/conntrack-defaults.ts";
import type { Family } from "../base/family.ts";
import type { Chain, ElementSet, Flowtable, Ruleset, SetSpec, Table, TimeoutPolicy } from "./ast/ruleset.ts";
import { elementsOf } from "./elements.ts";
import { SetComparison, type SetDelta } from "./set-comparison.ts";

/** The change of one set or map, with everything needed to send it. */
export interface ElementsDelta extends SetDelta {
  /** Set if elements of a map of intervals are deleted: see {@link withIntervals}. */
  readonly intervals?: IntervalsDelta;
}

/** How to delete elements of a map of intervals. */
export interface IntervalsDelta {
  /** The chains with lookups in the map. */
  readonly users: readonly Chain[];
  /** All elements of the new map, if it is replaced; undefined if elements are deleted one by one. */
  readonly anew: ReadonlyMap<string, string> | undefined;
}

/** The changes that turn the current table into the desired one. */
export interface TableDelta {
  readonly family: Family;
  readonly table: string;
  /** `create`: the table is missing; `recreate`: it cannot be changed in place. */
  readonly mode: "create" | "recreate" | "change";
  readonly addedSets: readonly SetSpec[];
  readonly deletedSets: readonly SetSpec[];
  readonly addedFlowtable?: Flowtable;
  readonly deletedFlowtable?: Flowtable;
  readonly addedTimeouts?: readonly TimeoutPolicy[] | undefined;
  readonly deletedTimeouts?: readonly string[] | undefined;
  /** New and changed chains: declared, flushed and filled. */
  readonly writtenChains: readonly Chain[];
  /** The names of the changed ones among them. */
  readonly changedChains: readonly string[];
  /** Base chains with another hook, priority or policy: deleted before they are written. */
  readonly replacedChains: readonly string[];
  readonly deletedChains: readonly string[];
  readonly elements: readonly ElementsDelta[];
}

/** The number of objects that a delta changes, for logs and metrics. */
export interface DeltaSize {
  readonly chains: number;
  readonly sets: number;
  readonly elements: number;
}

/**
 * Compares two tables of one family.
 * @param actual the table in the kernel, undefined when there is none
 * @param desired the desired table
 * @returns undefined if nothing differs
 */
function diffTable(actual: Table | undefined, desired: Table): TableDelta | undefined {
  const delta = diffDeclarations(actual, desired);
  if (actual === undefined || delta.mode !== "change") return delta;
  const elements = [...desired.sets.values()]
    .flatMap((set) => diffElements(actual.sets.get(set.spec.name), set))
    .map((changes) => withIntervals(changes, desired));
  const whole = { ...delta, elements };
  return isEmptyDelta(whole) ? undefined : whole;
}

/**
 * Compares two tables of one family without the elements of their sets, which `actual` may lack.
 * @param actual the table in the kernel, undefined if there is none
 * @returns a delta without elements, possibly empty; with all elements if the table must be created
 */
export function diffDeclarations(actual: Table | undefined, desired: Table): TableDelta {
  if (actual === undefined) return creation(desired, "create");
  if (!canChangeInPlace(actual, desired)) return creation(desired, "recreate");
  const writtenChains = [...desired.chains.values()].filter(
    (chain) => !sameChain(actual.chains.get(chain.name), chain),
  );
  return {
    family: desired.family,
    table: desired.name,
    mode: "change",
    addedSets: [...desired.sets.values()]
      .filter((set) => !actual.sets.has(set.spec.name))
      .map((set) => set.spec),
    deletedSets: [...actual.sets.values()]
      .filter((set) => !desired.sets.has(set.spec.name))
      .map((set) => set.spec),
    ...diffFlowtables(actual.flowtable, desired.flowtable),
    ...diffTimeouts(actual.timeouts, desired.timeouts),
    writtenChains,
    changedChains: writtenChains.map(({ name }) => name).filter((name) => actual.chains.has(name)),
    replacedChains: [...desired.chains.values()]
      .filter((chain) => isReplaced(actual.chains.get(chain.name), chain))
      .map((chain) => chain.name),
    deletedChains: [...actual.chains.keys()].filter((name) => !desired.chains.has(name)),
    elements: [],
  };
}

/** Other changes are not possible in place: see {@link canChangeInPlace}. */
function diffFlowtables(
  actual: Flowtable | undefined,
  desired: Flowtable | undefined,
): Pick<TableDelta, "addedFlowtable" | "deletedFlowtable"> {
  if (desired === undefined) return actual === undefined ? {} : { deletedFlowtable: actual };
  return actual === undefined ? { addedFlowtable: desired } : {};
}

/** Other changes are not possible in place: see {@link canChangeInPlace}. */
function diffTimeouts(
  actual: Table["timeouts"],
  desired: Table["timeouts"],
): Pick<TableDelta, "addedTimeouts" | "deletedTimeouts"> {
  const addedTimeouts = [...(desired?.values() ?? [])].filter(({ name }) => !actual?.has(name));
  const deletedTimeouts = [...(actual?.keys() ?? [])].filter((name) => !desired?.has(name));
  return {
    ...(addedTimeouts.length > 0 && { addedTimeouts }),
    ...(deletedTimeouts.length > 0 && { deletedTimeouts }),
  };
}

/** Compares both tables. Ignores families absent from `desired`. */
export function diffRuleset(actual: Ruleset, desired: Ruleset): TableDelta[] {
  return Object.values(desired).flatMap((table) => diffTable(actual[table.family], table) ?? []);
}

/** The delta that creates a table. */
export function creation(desired: Table, mode: "create" | "recreate"): TableDelta {
  return {
    family: desired.family,
    table: desired.name,
    mode,
    addedSets: [...desired.sets.values()].map((set) => set.spec),
    deletedSets: [],
    ...diffFlowtables(undefined, desired.flowtable),
    ...diffTimeouts(undefined, desired.timeouts),
    writtenChains: [...desired.chains.values()],
    changedChains: [],
    replacedChains: [],
    deletedChains: [],
    elements: [...desired.sets.values()].flatMap(allElements),
  };
}

/**
 * The differences caused by other software: those that our own unsent changes do not explain.
 * @param found from comparing the kernel with the desired state
 * @param pending our own unsent changes
 */
export function unexplained<Delta extends TableDelta>(
  found: readonly Delta[],
  pending: readonly TableDelta[],
): Delta[] {
  return found.flatMap((delta) => {
    const own = pending.filter(({ family }) => family === delta.family);
    if (delta.mode !== "change") return own.some(({ mode }) => mode !== "change") ? [] : [delta];
    const chains = new Set(
      own.flatMap((one) => [...one.writtenChains.map(({ name }) => name), ...one.deletedChains]),
    );
    const sets = new Set(
      own.flatMap((one) => [...one.addedSets, ...one.deletedSets].map(({ name }) => name)),
    );
    const rest = {
      ...delta,
      // Each has the name of the chain that uses it.
      addedTimeouts: delta.addedTimeouts?.filter(({ name }) => !chains.has(name)),
      deletedTimeouts: delta.deletedTimeouts?.filter((name) => !chains.has(name)),
      addedSets: delta.addedSets.filter(({ name }) => !sets.has(name)),
      deletedSets: delta.deletedSets.filter(({ name }) => !sets.has(name)),
      writtenChains: delta.writtenChains.filter(({ name }) => !chains.has(name)),
      deletedChains: delta.deletedChains.filter((name) => !chains.has(name)),
      elements: delta.elements.flatMap((elements) => unexplainedElements(elements, own)),
    };
    return isEmptyDelta(rest) ? [] : [rest];
  });
}

/**
 * The differences in both of two comparisons, as the later one found them. A table that must be created is
 * one of them if either comparison found any difference in it.
 */
export function inBoth<Delta extends TableDelta>(
  later: readonly Delta[],
  earlier: readonly Delta[],
): Delta[] {
  return earlier.flatMap((before) => {
    const now = later.find(({ family }) => family === before.family);
    if (now === undefined) return [];
    if (before.mode !== "change" || now.mode !== "change") return [now];
    const confirmed = { ...now, ...declarationsInBoth(now, before), elements: elementsInBoth(now, before) };
    return isEmptyDelta(confirmed) ? [] : [confirmed];
  });
}

function declarationsInBoth(now: TableDelta, before: TableDelta) {
  const named = <One extends { readonly name: string }>(these: readonly One[], those: readonly One[]) =>
    these.filter(({ name }) => those.some((other) => other.name === name));
  const inThose = (these: readonly string[], those: readonly string[]) =>
    these.filter((name) => those.includes(name));
  const written = before.writtenChains.map(({ name }) => name);
  return {
    addedTimeouts: now.addedTimeouts && named(now.addedTimeouts, before.addedTimeouts ?? []),
    deletedTimeouts: now.deletedTimeouts && inThose(now.deletedTimeouts, before.deletedTimeouts ?? []),
    addedSets: named(now.addedSets, before.addedSets),
    deletedSets: named(now.deletedSets, before.deletedSets),
    writtenChains: named(now.writtenChains, before.writtenChains),
    changedChains: inThose(now.changedChains, written),
    replacedChains: inThose(now.replacedChains, written),
    deletedChains: inThose(now.deletedChains, before.deletedChains),
  };
}

function elementsInBoth(now: TableDelta, before: TableDelta): ElementsDelta[] {
  return now.elements.flatMap((elements) => {
    const known = before.elements.find(({ spec }) => spec.name === elements.spec.name);
    if (known === undefined) return [];
    const keys = new Set(keysOf(known));
    return partOf(elements, (key) => keys.has(key));
  });
}

function unexplainedElements(found: ElementsDelta, own: readonly TableDelta[]): ElementsDelta[] {
  const pending = own.flatMap(({ elements }) => elements.filter((one) => one.spec.name === found.spec.name));
  const keys = new Set(pending.flatMap(keysOf));
  return partOf(found, (key) => !keys.has(key));
}

function keysOf({ deleted, added }: ElementsDelta): string[] {
  return [...deleted, ...added.map(({ key }) => key)];
}

/** The changes of some keys; none if nothing is left. */
export function partOf(elements: ElementsDelta, isWanted: (key: string) => boolean): ElementsDelta[] {
  const deleted = elements.deleted.filter(isWanted);
  const added = elements.added.filter(({ key }) => isWanted(key));
  return deleted.length + added.length === 0 ? [] : [{ ...elements, deleted, added }];
}

/**
 * Maximum number of intervals to delete one by one, without and with added intervals in the same transaction.
 * For more, the map is replaced. Of 10,000 intervals, the kernel deletes one in 7 ms and replaces one in 21
 * ms. It creates a map of them in 120 ms (6.18), twice because of packets in flight. All of this grows with
 * their number.
 */
const MOST_DELETED_INTERVALS = 40;
const MOST_REPLACED_INTERVALS = 13;

/**
 * Adds how to delete elements of a map of intervals; returns the delta itself if none is deleted.
 * @param delta the change of one of the table's sets
 */
export function withIntervals(
  delta: ElementsDelta,
  { sets, chains }: Pick<Table, "sets" | "chains">,
): ElementsDelta {
  const { spec, deleted } = delta;
  const elements = sets.get(spec.name)?.elements;
  if (elements === undefined || !hasIntervals(spec) || deleted.length === 0) return delta;
  const reference = `"@${spec.name}"`;
  const users = [...chains.values()].filter(({ rules }) => JSON.stringify(rules).includes(reference));
  const most = delta.added.length > 0 ? MOST_REPLACED_INTERVALS : MOST_DELETED_INTERVALS;
  return { ...delta, intervals: { users, anew: deleted.length > most ? elements : undefined } };
}

/** Whether the keys of a map end in intervals, such as port ranges. */
export function hasIntervals({ interval, key }: SetSpec): boolean {
  return interval === true && key.length > 1;
}

/** Whether two chains have the same hook and canonical rules. */
export function sameChain(a: Chain | undefined, b: Chain): boolean {
  // Usually the same object: thousands of frontends may share a chain, and each writes it.
  return (
    a === b || (a !== undefined && sameBase(a, b) && JSON.stringify(a.rules) === JSON.stringify(b.rules))
  );
}

/** Counts the chains, sets and elements that deltas change. */
export function deltaSize(deltas: readonly TableDelta[]): DeltaSize {
  let chains = 0;
  let sets = 0;
  let elements = 0;
  for (const delta of deltas) {
    chains += delta.writtenChains.length + delta.deletedChains.length;
    sets += delta.addedSets.length + delta.deletedSets.length;
    for (const { added, deleted } of delta.elements) elements += added.length + deleted.length;
  }
  return { chains, sets, elements };
}

/** Whether a delta of an existing table changes nothing. */
export function isEmptyDelta(delta: TableDelta): boolean {
  const { chains, sets, elements } = deltaSize([delta]);
  const { addedFlowtable, deletedFlowtable, addedTimeouts = [], deletedTimeouts = [] } = delta;
  const flowtables = [addedFlowtable, deletedFlowtable].filter((one) => one !== undefined).length;
  return chains + sets + elements + flowtables + addedTimeouts.length + deletedTimeouts.length === 0;
}

/**
 * Whether the table is not dormant, no set's declaration changes, no object gets other timeouts, and no chain
 * starts or stops being a base chain.
 */
function canChangeInPlace(actual: Table, desired: Table): boolean {
  if (actual.isDormant) return false;
  for (const { spec } of desired.sets.values()) {
    const known = actual.sets.get(spec.name);
    if (known !== undefined && !sameSpec(known.spec, spec)) return false;
  }
  if (!sameFlowtable(actual.flowtable, desired.flowtable)) return false;
  for (const policy of desired.timeouts?.values() ?? []) {
    const known = actual.timeouts?.get(policy.name);
    if (known !== undefined && !sameTimeouts(known, policy)) return false;
  }
  for (const chain of desired.chains.values()) {
    const known = actual.chains.get(chain.name);
    if (known !== undefined && (known.base === undefined) !== (chain.base === undefined)) return false;
  }
  return true;
}

function sameSpec(a: SetSpec, b: SetSpec): boolean {
  return (
    String(a.key) === String(b.key) &&
    String(a.value) === String(b.value) &&
    a.dynamic === b.dynamic &&
    a.untimed === b.untimed &&
    a.counter === b.counter &&
    a.size === b.size &&
    a.timeout === b.timeout &&
    a.interval === b.interval
  );
}

/** Whether one flow table, or none, can stay in place of the other. */
function sameFlowtable(a: Flowtable | undefined, b: Flowtable | undefined): boolean {
  return a === undefined || b === undefined || (a.name === b.name && a.hook === b.hook && a.prio === b.prio);
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

function sameBase(a: Chain, b: Chain): boolean {
  return (
    a.base?.type === b.base?.type &&
    a.base?.hook === b.base?.hook &&
    a.base?.prio === b.base?.prio &&
    a.base?.policy === b.base?.policy
  );
}

function isReplaced(actual: Chain | undefined, desired: Chain): boolean {
  return actual !== undefined && !sameBase(actual, desired);
}

/** Dynamic maps are filled by packets, and never compared. */
function diffElements(actual: ElementSet | undefined, desired: ElementSet): ElementsDelta[] {
  if (desired.spec.dynamic || actual === undefined) return allElements(desired);
  const comparison = new SetComparison(desired);
  for (const key of desired.elements.keys()) comparison.expect(key);
  for (const [key, value] of actual.elements) comparison.listed(key, value);
  return comparison.result();
}

/** The elements of a set as additions; none of a dynamic one. */
export function allElements({ spec, elements }: ElementSet): ElementsDelta[] {
  if (spec.dynamic || elements.size === 0) return [];
  return [{ spec, deleted: [], added: elementsOf(elements) }];
}
