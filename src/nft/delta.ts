import type { Family } from "../base/family.ts";
import type { Chain, ElementSet, Ruleset, SetSpec, Table } from "./ast/ruleset.ts";
import { elementsOf } from "./elements.ts";
import { SetComparison, type SetDelta } from "./set-comparison.ts";
import { needsNewTable, type ObjectChange, objectChanges, ofKind, withoutChanges } from "./table-objects.ts";

/** The change of one set or map, with everything needed to send it. */
export interface ElementsDelta extends SetDelta {
  /** Set if elements of a map of intervals are deleted: see {@link withIntervalDeletion}. */
  readonly intervalDeletion?: IntervalDeletion;
}

/** How to delete elements of a map of intervals. */
export interface IntervalDeletion {
  /** The chains with lookups in the map. */
  readonly users: readonly Chain[];
  /** All elements of the map that replaces it; undefined if elements are deleted one by one. */
  readonly replacement: ReadonlyMap<string, string> | undefined;
}

/** The changes that turn the current table into the desired one. */
export interface TableDelta {
  readonly family: Family;
  readonly table: string;
  /** `create`: the table is missing; `recreate`: it cannot be changed in place. */
  readonly mode: "create" | "recreate" | "change";
  readonly objects: readonly ObjectChange[];
  readonly elements: readonly ElementsDelta[];
}

/** Compares two tables of one family. @returns nothing if they are equal */
function diffTable(actual: Table | undefined, desired: Table): TableDelta[] {
  const delta = diffDeclarations(actual, desired);
  if (actual === undefined || delta.mode !== "change") return [delta];
  const elements = [...desired.sets.values()]
    .flatMap((set) => diffElements(actual.sets.get(set.spec.name), set))
    .map((changes) => withIntervalDeletion(changes, desired));
  return nonEmpty({ ...delta, elements });
}

/**
 * Compares two tables of one family without the elements of their sets, which `actual` may lack.
 * @param actual the table in the kernel, undefined if there is none
 * @returns a delta without elements, possibly empty; with all elements if the table must be created
 */
export function diffDeclarations(actual: Table | undefined, desired: Table): TableDelta {
  if (actual === undefined) return creation(desired, "create");
  const objects = objectChanges(actual, desired);
  if (actual.isDormant || objects.some(needsNewTable)) return creation(desired, "recreate");
  return { ...onlyElements({ family: desired.family, table: desired.name }, []), objects };
}

/** Compares both tables. Ignores families absent from `desired`. */
export function diffRuleset(actual: Ruleset, desired: Ruleset): TableDelta[] {
  return Object.values(desired).flatMap((table) => diffTable(actual[table.family], table));
}

/** The delta that creates a table. */
export function creation(desired: Table, mode: "create" | "recreate"): TableDelta {
  return {
    family: desired.family,
    table: desired.name,
    mode,
    objects: objectChanges(undefined, desired),
    elements: [...desired.sets.values()].flatMap(allElements),
  };
}

/** A delta of an existing table that changes only elements. */
export function onlyElements(
  { family, table }: Pick<TableDelta, "family" | "table">,
  elements: readonly ElementsDelta[],
): TableDelta {
  return { family, table, mode: "change", objects: [], elements };
}

/** The delta, or nothing if it changes nothing. */
export function nonEmpty(delta: TableDelta): TableDelta[] {
  return isEmptyDelta(delta) ? [] : [delta];
}

/** Whether a delta of an existing table changes nothing. */
export function isEmptyDelta(delta: TableDelta): boolean {
  return delta.objects.length === 0 && elementChanges(delta) === 0;
}

function elementChanges({ elements }: TableDelta): number {
  return elements.reduce((sum, { added, deleted }) => sum + added.length + deleted.length, 0);
}

/** The added and changed chains. */
export function writtenChains({ objects }: Pick<TableDelta, "objects">): Chain[] {
  return ofKind(objects, "chain").flatMap(({ after }) => after ?? []);
}

/**
 * The differences caused by other software: those that our own unsent changes do not explain.
 * @param found from comparing the kernel with the desired state
 * @param pending our own unsent changes
 */
export function unexplained(found: readonly TableDelta[], pending: readonly TableDelta[]): TableDelta[] {
  return found.flatMap((delta) => {
    const own = pending.filter(({ family }) => family === delta.family);
    // A table that has to be created is explained if we have not created it yet.
    if (delta.mode !== "change") return own.some(({ mode }) => mode !== "change") ? [] : [delta];
    const known = new Set(own.flatMap(({ objects }) => objects.map(identity)));
    return nonEmpty({
      ...delta,
      objects: delta.objects.filter((change) => !known.has(identity(change))),
      elements: delta.elements.flatMap((elements) => unexplainedElements(elements, own)),
    });
  });
}

function identity({ kind, name }: ObjectChange): string {
  return `${kind} ${name}`;
}

function unexplainedElements(found: ElementsDelta, own: readonly TableDelta[]): ElementsDelta[] {
  const pending = own.flatMap(({ elements }) => elements.filter((one) => one.spec.name === found.spec.name));
  const keys = new Set(pending.flatMap(keysOf));
  return partOf(found, (key) => !keys.has(key));
}

/** The table before a change in place. What does not change is shared with the table after it. */
export function tableBefore(after: Table, { objects, elements }: TableDelta): Table {
  const table = withoutChanges(after, objects);
  const sets = new Map(table.sets);
  for (const { spec, added, deleted } of elements) {
    const set = sets.get(spec.name);
    if (set === undefined) continue;
    const before = new Map(set.elements);
    for (const { key } of added) before.delete(key);
    for (const { key, value } of deleted) before.set(key, value);
    sets.set(spec.name, { ...set, elements: before });
  }
  return { ...table, sets };
}

/** The keys of changed elements; those with another value twice. */
export function keysOf({ deleted, added }: ElementsDelta): string[] {
  return [...deleted, ...added].map(({ key }) => key);
}

/** The changes of some keys; none if nothing is left. */
export function partOf(elements: ElementsDelta, isWanted: (key: string) => boolean): ElementsDelta[] {
  const deleted = elements.deleted.filter(({ key }) => isWanted(key));
  const added = elements.added.filter(({ key }) => isWanted(key));
  return deleted.length + added.length === 0 ? [] : [{ ...elements, deleted, added }];
}

/**
 * Maximum number of intervals to delete one by one; for more, the map is replaced. In a map of 10,000, the
 * kernel deletes an interval in 7 ms. It creates such a map in 120 ms (6.18), and twice because of packets in
 * flight. Both grow with the number of intervals.
 */
const MOST_DELETED_INTERVALS = 40;

/** The same if a transaction adds intervals, too: deleting one and adding another takes 21 ms. */
const MOST_REPLACED_INTERVALS = 13;

/**
 * Returns the change of one of a table's sets with the way to delete elements, if it is a map of intervals
 * and loses some.
 */
export function withIntervalDeletion(
  delta: ElementsDelta,
  { sets, chains }: Pick<Table, "sets" | "chains">,
): ElementsDelta {
  const { spec, deleted } = delta;
  const elements = sets.get(spec.name)?.elements;
  if (elements === undefined || !hasIntervalKeys(spec) || deleted.length === 0) return delta;
  const reference = `"@${spec.name}"`;
  const users = [...chains.values()].filter(({ rules }) => JSON.stringify(rules).includes(reference));
  const most = delta.added.length > 0 ? MOST_REPLACED_INTERVALS : MOST_DELETED_INTERVALS;
  return { ...delta, intervalDeletion: { users, replacement: deleted.length > most ? elements : undefined } };
}

/** Whether the keys of a map end in intervals, such as port ranges. */
export function hasIntervalKeys({ interval, key }: SetSpec): boolean {
  return interval === true && key.length > 1;
}

/** Counts the chains, sets and elements that deltas change, for logs and metrics. */
export function deltaSize(
  deltas: readonly TableDelta[],
): Readonly<Record<"chains" | "sets" | "elements", number>> {
  const sum = (countIn: (delta: TableDelta) => number) =>
    deltas.reduce((total, delta) => total + countIn(delta), 0);
  return {
    chains: sum(({ objects }) => ofKind(objects, "chain").length),
    sets: sum(({ objects }) => ofKind(objects, "set").length),
    elements: sum(elementChanges),
  };
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
