import type { Family } from "../../base/family.ts";
import type { Ruleset, Table } from "../../nft/ast/ruleset.ts";
import { creation, diffRuleset, nonEmpty, partOf, type TableDelta } from "../../nft/delta.ts";
import { selectElements } from "../../nft/select.ts";
import { objectIn } from "../../nft/table-objects.ts";
import { elementOwners, type RulesetState } from "../../ruleset/ruleset-state.ts";
import { PORT_PROTOCOLS } from "../../ruleset/sets.ts";
import { isNamed, type ServiceArgument } from "../explain/query.ts";

/** Returns true if an element belongs to the selected service ports. */
type IsWanted = (family: Family, set: string, key: string) => boolean;

/** The part of a desired state to print. */
export interface Selection {
  readonly families: readonly Family[];
  /** Absent for the elements of every service port. */
  readonly isWanted?: IsWanted;
}

/** Selects families, and the elements of one Service or of one of its ports. */
export function selectionOf(
  state: RulesetState,
  families: readonly Family[],
  service: ServiceArgument | undefined,
): Selection {
  if (service === undefined) return { families };
  const owners = Object.fromEntries(
    Object.values(state.families).map((each) => [each.table.family, elementOwners(each)]),
  );
  return {
    families,
    isWanted: (family, set, key) =>
      owners[family]?.ofElement(set, key).some((port) => isNamed(port, service)) ?? false,
  };
}

/** Returns the selected tables: for one Service, only its elements and the chains and sets that they need. */
export function selectedTables(
  { families: states }: RulesetState,
  { families, isWanted }: Selection,
): Table[] {
  const tables = families.flatMap((family) => states[family]?.table ?? []);
  if (isWanted === undefined) return tables;
  return tables
    .map((table) => selectElements(table, (set, key) => isWanted(table.family, set, key), PORT_PROTOCOLS))
    .filter(({ sets }) => sets.size > 0);
}

/** Tables by family. */
export function rulesetOf(tables: readonly Table[]): Ruleset {
  return Object.fromEntries(tables.map((table) => [table.family, table]));
}

/**
 * Returns the changes that bring the kernel to the selected part of the desired state. Nothing outside of it
 * is deleted.
 * @param desired the tables of the selected families that this host can have
 */
export function selectedChanges(
  state: RulesetState,
  selection: Selection,
  kernel: Ruleset,
  desired: Ruleset,
): TableDelta[] {
  const deltas = diffRuleset(kernel, desired);
  const { isWanted } = selection;
  if (isWanted === undefined) return deltas;
  const selected = selectedTables(state, selection);
  return deltas.flatMap((delta) => restricted(delta, selected, isWanted));
}

function restricted(delta: TableDelta, selected: readonly Table[], isWanted: IsWanted): TableDelta[] {
  const table = selected.find(({ family }) => family === delta.family);
  if (table === undefined) return [];
  if (delta.mode !== "change") return [creation(table, delta.mode)];
  return nonEmpty({
    ...delta,
    objects: delta.objects.filter(
      (change) => change.after !== undefined && objectIn(table, change) !== undefined,
    ),
    elements: delta.elements.flatMap((elements) =>
      partOf(elements, (key) => isWanted(delta.family, elements.spec.name, key)),
    ),
  });
}
