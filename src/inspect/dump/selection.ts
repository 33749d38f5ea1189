import type { Ruleset, Table } from "../../nft/ast/ruleset.ts";
import { creation, diffRuleset, nonEmpty, partOf, type TableDelta } from "../../nft/delta.ts";
import { selectElements } from "../../nft/select.ts";
import { objectIn } from "../../nft/table-objects.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { elementOwners } from "../../ruleset/ruleset-state.ts";
import { PORT_PROTOCOLS } from "../../ruleset/sets.ts";
import { isNamed, type ServiceArgument } from "../explain/query.ts";

/** Whether an element of a table belongs to a Service, or to one of its ports. */
type IsWanted = (set: string, key: string) => boolean;

/**
 * Returns the tables of some families: for one Service, only its elements and the chains and sets that they
 * need.
 */
export function selectedTables(
  states: readonly FamilyState[],
  service: ServiceArgument | undefined,
): Table[] {
  return states
    .map((state) => (service === undefined ? state.table : partOfTable(state, ownedBy(service, state))))
    .filter(({ sets }) => sets.size > 0);
}

function partOfTable({ table }: FamilyState, isWanted: IsWanted): Table {
  return selectElements(table, isWanted, PORT_PROTOCOLS);
}

function ownedBy(service: ServiceArgument, state: FamilyState): IsWanted {
  const owners = elementOwners(state);
  return (set, key) => owners.ofElement(set, key).some((port) => isNamed(port, service));
}

/** Tables by family. */
export function rulesetOf(tables: readonly Table[]): Ruleset {
  return Object.fromEntries(tables.map((table) => [table.family, table]));
}

/**
 * Returns the changes that bring the kernel to the desired state of some families, or of one Service there.
 * Nothing outside of it is deleted.
 * @param desired the tables of these families that this host can have
 */
export function selectedChanges(
  states: readonly FamilyState[],
  service: ServiceArgument | undefined,
  kernel: Ruleset,
  desired: Ruleset,
): TableDelta[] {
  const deltas = diffRuleset(kernel, desired);
  if (service === undefined) return deltas;
  return deltas.flatMap((delta) => {
    const state = states.find(({ table }) => table.family === delta.family);
    return state === undefined ? [] : restricted(delta, state, ownedBy(service, state));
  });
}

function restricted(delta: TableDelta, state: FamilyState, isWanted: IsWanted): TableDelta[] {
  const table = partOfTable(state, isWanted);
  if (table.sets.size === 0) return [];
  if (delta.mode !== "change") return [creation(table, delta.mode)];
  return nonEmpty({
    ...delta,
    objects: delta.objects.filter(
      (change) => change.after !== undefined && objectIn(table, change) !== undefined,
    ),
    elements: delta.elements.flatMap((elements) =>
      partOf(elements, (key) => isWanted(elements.spec.name, key)),
    ),
  });
}
