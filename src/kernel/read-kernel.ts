import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError, evidenceOf, messageOf } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { ElementSet, Ruleset, SetSpec, Table } from "../nft/ast/ruleset.ts";
import { parseListing } from "../nft/canonical/parse.ts";
import { diffDeclarations, nonEmpty, type TableDelta, tableBefore } from "../nft/delta.ts";
import { SetComparison } from "../nft/set-comparison.ts";
import type { TableReader } from "./table-reader.ts";

/** nft-proxy's tables could not be read. */
interface Unreadable {
  readonly kind: "unreadable";
  readonly reason: string;
  /**
   * Whether nft cannot work at all; false if the tables contain something that it cannot list or that is not
   * understood.
   */
  readonly isNftAtFault: boolean;
  /** How the user can solve the problem; absent if unknown. */
  readonly hint?: string | undefined;
}

/** The contents of nft-proxy's tables in the kernel. */
export type KernelState = { readonly kind: "read"; readonly ruleset: Ruleset } | Unreadable;

/** The differences of nft-proxy's tables in the kernel from the desired ones. */
export type KernelComparison =
  | { readonly kind: "compared"; readonly differences: readonly TableDelta[] }
  | Unreadable;

/**
 * Reads nft-proxy's tables of the given families, set by set. Never reads the dynamic maps, which packets
 * fill: 200,000 clients take 6 s, and all other sets of a large cluster 0.6 s (nft 1.1.3).
 * @throws AppError as {@link Nft.apply} does if nft cannot work at all, so that the tables are unknown
 */
export async function readKernel(reader: TableReader, families: readonly Family[]): Promise<KernelState> {
  const tables: Partial<Record<Family, Table>> = {};
  try {
    for (const family of families) {
      const table = await declaredTable(reader, family);
      if (table !== undefined) tables[family] = { ...table, sets: await readSets(reader, table) };
    }
    return { kind: "read", ruleset: tables };
  } catch (error) {
    if (isNftAtFault(error)) throw error;
    return unreadable(error);
  }
}

/** What to compare: everything, or declarations, without the elements of existing sets. */
export type ComparisonScope = "everything" | "declarations";

/** Number of keys that a comparison adds in one turn of the event loop; 100,000 would block it for 15 ms. */
const KEYS_PER_TURN = 5000;

/** Number of elements that are known to be missing after which the set is dumped again instead of asking. */
const MOST_ABSENT = 100;

/**
 * Compares nft-proxy's tables with the desired ones while reading them, so that correct elements are not
 * kept. Yields to other work as often as needed.
 * @param desired may change meanwhile: see {@link SetComparison}; families that it lacks are ignored
 */
export async function compareKernel(
  reader: TableReader,
  desired: Ruleset,
  signal?: AbortSignal,
  scope: ComparisonScope = "everything",
): Promise<KernelComparison> {
  /**
   * Asks for the elements that a dump lacks, one by one. Intervals cannot be asked for.
   * @returns whether none is left that a dump could find; false after {@link MOST_ABSENT} absent ones
   */
  const areMissing = async (family: Family, spec: SetSpec, comparison: SetComparison) => {
    if (spec.interval === true) return comparison.missing.size === 0;
    let absent = 0;
    for (const key of comparison.missing) {
      const found = await reader.element(family, spec, key);
      if (found !== undefined) comparison.listed(found.key, found.value);
      else if (++absent === MOST_ABSENT) return false;
    }
    return true;
  };
  const compareSet = async (family: Family, set: ElementSet, known: ElementSet | undefined) => {
    const comparison = new SetComparison(set);
    let expected = 0;
    for (const key of set.elements.keys()) {
      comparison.expect(key);
      if (++expected % KEYS_PER_TURN === 0) await nextTurn();
    }
    if (known === undefined) return comparison;
    const dump = async () => {
      for await (const batch of reader.elements(family, known.spec, signal))
        for (const { key, value } of batch) comparison.listed(key, value);
    };
    await dump();
    // A dump may miss elements: asks for a few, and dumps again for many.
    if (!(await areMissing(family, known.spec, comparison))) await dump();
    return comparison;
  };
  const differences: TableDelta[] = [];
  try {
    for (const table of Object.values(desired)) {
      const { family, sets } = table;
      const actual = await declaredTable(reader, family, signal);
      const delta = diffDeclarations(actual, table);
      if (delta.mode !== "change") {
        differences.push(...nonEmpty(delta));
        continue;
      }
      const compared: SetComparison[] = [];
      for (const set of sets.values()) {
        const known = actual?.sets.get(set.spec.name);
        if (set.spec.dynamic || (known !== undefined && scope === "declarations")) continue;
        compared.push(await compareSet(family, set, known));
      }
      differences.push(...nonEmpty({ ...delta, elements: compared.flatMap((set) => set.result()) }));
    }
    return { kind: "compared", differences };
  } catch (error) {
    return unreadable(error);
  }
}

/**
 * Computes the tables in the kernel from the desired ones and the differences.
 * @returns undefined if a table has other declarations, because its elements are then unknown
 */
export function actualTables(desired: Ruleset, differences: readonly TableDelta[]): Ruleset | undefined {
  const tables: Partial<Record<Family, Table>> = { ...desired };
  for (const difference of differences) {
    const table = desired[difference.family];
    if (difference.mode === "recreate") return undefined;
    if (difference.mode === "create" || table === undefined) delete tables[difference.family];
    else tables[difference.family] = tableBefore(table, difference);
  }
  return tables;
}

/** Whether a failure says nothing about the tables. Others tell of tables to rebuild. */
function isNftAtFault(error: unknown): boolean {
  return error instanceof AppError && error.code !== "NFT_OUTPUT" && error.code !== "NFT_FEATURE";
}

function unreadable(error: unknown): Unreadable {
  const { hint } = evidenceOf(error);
  return { kind: "unreadable", reason: messageOf(error), isNftAtFault: isNftAtFault(error), hint };
}

/** Returns a table without elements; undefined if there is none. */
export async function declaredTable(
  reader: Pick<TableReader, "listTable">,
  family: Family,
  signal?: AbortSignal,
): Promise<Table | undefined> {
  const text = await reader.listTable(family, signal);
  return text === undefined ? undefined : parseListing(text)[family];
}

async function readSets(reader: TableReader, { family, sets }: Table): Promise<Map<string, ElementSet>> {
  const result = new Map<string, ElementSet>();
  for (const { spec } of sets.values()) {
    const elements = new Map<string, string>();
    if (!spec.dynamic) {
      for await (const batch of reader.elements(family, spec))
        for (const { key, value } of batch) elements.set(key, value);
    }
    result.set(spec.name, { spec, elements });
  }
  return result;
}
