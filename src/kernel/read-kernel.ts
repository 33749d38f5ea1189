import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError, messageOf } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { Chain, ElementSet, Ruleset, SetSpec, Table } from "../nft/ast/ruleset.ts";
import { parseElement } from "../nft/canonical/elements.ts";
import { parseListing, readListing } from "../nft/canonical/parse.ts";
import { SetListingParser } from "../nft/canonical/set-listing.ts";
import { diffDeclarations, isEmptyDelta, type TableDelta } from "../nft/delta.ts";
import type { Element } from "../nft/elements.ts";
import { SetComparison } from "../nft/set-comparison.ts";
import type { TableLister } from "./nft.ts";

/** nft-proxy's tables could not be read, with the reason. */
interface Unreadable {
  readonly kind: "unreadable";
  readonly reason: string;
  /** nft could not work at all; false when the tables have something that it cannot list, or that is not understood. */
  readonly isNftAtFault: boolean;
  /** How the reader can solve the problem; absent when it is not known. */
  readonly hint?: string;
}

/** The contents of nft-proxy's tables in the kernel. */
export type KernelState = { readonly kind: "read"; readonly ruleset: Ruleset } | Unreadable;

/** A difference of one of nft-proxy's tables in the kernel from the desired one. */
export interface TableDifference extends TableDelta {
  /** What is there in place of the desired: the chains, and by set the elements, that the delta replaces or deletes. */
  readonly actual: {
    readonly chains: readonly Chain[];
    readonly elements: readonly { readonly set: string; readonly elements: readonly Element[] }[];
  };
}

/** The differences of nft-proxy's tables in the kernel from the desired ones. */
export type KernelComparison =
  | { readonly kind: "compared"; readonly differences: readonly TableDifference[] }
  | Unreadable;

/** Lists our tables for {@link readKernel}. */
export type TableReader = Pick<TableLister, "listTable" | "streamSet">;

/**
 * Reads nft-proxy's tables of the given families, set by set. The dynamic maps, which packets fill, are never listed:
 * 200,000 clients take 6 s, and all other sets of a large cluster 0.6 s (nft 1.1.3).
 * @throws AppError when nft cannot work at all, so that nothing is known of the tables: as {@link Nft.apply} does
 */
export async function readKernel(nft: TableReader, families: readonly Family[]): Promise<KernelState> {
  const tables: Partial<Record<Family, Table>> = {};
  try {
    for (const family of families) {
      const table = await declaredTable(nft, family);
      if (table !== undefined) tables[family] = { ...table, sets: await readSets(nft, table) };
    }
    return { kind: "read", ruleset: tables };
  } catch (error) {
    if (isNftAtFault(error)) throw error;
    return unreadable(error);
  }
}

/** How much is compared: all, or nothing of what is in sets that are there. */
export type ComparisonScope = "everything" | "declarations";

/**
 * Compares nft-proxy's tables with the desired ones while nft lists them, as often as is necessary giving way to other
 * work: neither the listing nor what is right in it is kept.
 * @param desired may change meanwhile: see {@link SetComparison}; a family that it does not have is not looked at
 */
export async function compareKernel(
  nft: TableReader,
  desired: Ruleset,
  signal?: AbortSignal,
  scope: ComparisonScope = "everything",
): Promise<KernelComparison> {
  const differences: TableDifference[] = [];
  try {
    for (const table of Object.values(desired)) {
      const actual = await declaredTable(nft, table.family, signal);
      const delta = diffDeclarations(actual, table);
      const sets = delta.mode === "change" ? await compareSets(nft, actual, table, signal, scope) : undefined;
      const whole = { ...delta, elements: sets?.flatMap((set) => set.result()) ?? delta.elements };
      if (delta.mode === "change" && isEmptyDelta(whole)) continue;
      const chains = [...whole.writtenChains.map(({ name }) => name), ...whole.deletedChains];
      differences.push({
        ...whole,
        actual: {
          chains: chains.flatMap((name) => actual?.chains.get(name) ?? []),
          elements: sets?.map(({ name, unwanted }) => ({ set: name, elements: unwanted })) ?? [],
        },
      });
    }
    return { kind: "compared", differences };
  } catch (error) {
    return unreadable(error);
  }
}

/**
 * The tables in the kernel, from the desired ones and the differences that were found.
 * @returns undefined when a table has other declarations: nothing is known of its elements
 */
export function actualTables(desired: Ruleset, differences: readonly TableDifference[]): Ruleset | undefined {
  const tables: Partial<Record<Family, Table>> = { ...desired };
  for (const difference of differences) {
    const table = desired[difference.family];
    if (difference.mode === "recreate") return undefined;
    if (difference.mode === "create" || table === undefined) delete tables[difference.family];
    else tables[difference.family] = actualTable(table, difference);
  }
  return tables;
}

function actualTable(desired: Table, { actual, ...delta }: TableDifference): Table {
  const chains = new Map(desired.chains);
  for (const name of [...delta.writtenChains.map((chain) => chain.name), ...delta.deletedChains]) {
    const chain = actual.chains.find((one) => one.name === name);
    if (chain === undefined) chains.delete(name);
    else chains.set(name, chain);
  }
  const sets = new Map(desired.sets);
  for (const { name } of delta.addedSets) sets.delete(name);
  for (const spec of delta.deletedSets) sets.set(spec.name, { spec, elements: new Map() });
  for (const { spec, added, deleted } of delta.elements) {
    const set = sets.get(spec.name);
    if (set === undefined) continue;
    const elements = new Map(set.elements);
    for (const { key } of added) elements.delete(key);
    const isWrong = new Set(deleted);
    for (const { key, value } of actual.elements.find((one) => one.set === spec.name)?.elements ?? []) {
      if (isWrong.has(key)) elements.set(key, value);
    }
    sets.set(spec.name, { ...set, elements });
  }
  return { ...desired, chains, sets };
}

/** An nft that answers, or crashes on a table, has tables to be rebuilt; any other failure says nothing of them. */
export function isNftAtFault(error: unknown): boolean {
  return error instanceof AppError && error.code !== "NFT_OUTPUT" && error.code !== "NFT_FEATURE";
}

function unreadable(error: unknown): Unreadable {
  const hint = error instanceof AppError ? error.hint : undefined;
  const reason = messageOf(error);
  return {
    kind: "unreadable",
    reason,
    isNftAtFault: isNftAtFault(error),
    ...(hint === undefined ? {} : { hint }),
  };
}

/** A table without the elements of its sets; undefined when there is none. */
async function declaredTable(nft: TableReader, family: Family, signal?: AbortSignal): Promise<Table | undefined> {
  const text = await nft.listTable(family, signal);
  return text === undefined ? undefined : parseListing(readListing(text))[family];
}

async function readSets(nft: TableReader, { family, sets }: Table): Promise<Map<string, ElementSet>> {
  const result = new Map<string, ElementSet>();
  for (const { spec } of sets.values()) {
    const elements = new Map<string, string>();
    await listElements(nft, family, spec, (key, value) => elements.set(key, value));
    result.set(spec.name, { spec, elements });
  }
  return result;
}

/** Keys that a comparison expects in one turn of the event loop: 100,000 would take 15 ms. */
const KEYS_PER_TURN = 5000;

async function compareSets(
  nft: TableReader,
  actual: Table | undefined,
  desired: Table,
  signal: AbortSignal | undefined,
  scope: ComparisonScope,
): Promise<SetComparison[]> {
  const result: SetComparison[] = [];
  for (const set of desired.sets.values()) {
    const known = actual?.sets.get(set.spec.name);
    if (set.spec.dynamic || (known !== undefined && scope === "declarations")) continue;
    const comparison = new SetComparison(set);
    let expected = 0;
    for (const key of set.elements.keys()) {
      comparison.expect(key);
      if (++expected % KEYS_PER_TURN === 0) await nextTurn();
    }
    if (known !== undefined) {
      const take = (key: string, value: string) => comparison.listed(key, value);
      await listElements(nft, desired.family, known.spec, take, signal);
    }
    result.push(comparison);
  }
  return result;
}

/** Hands over the elements of a set or map one by one, in canonical form; none of a dynamic one. */
async function listElements(
  nft: TableReader,
  family: Family,
  spec: SetSpec,
  take: (key: string, value: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  if (spec.dynamic) return;
  const takeItem = (item: unknown): void => {
    const { key, value } = parseElement(spec, item);
    take(key, value);
  };
  await listItems(nft, family, spec, takeItem, signal);
}

/**
 * Hands over the elements of a set or map one by one as nft prints them, none when it is not there.
 * @throws AppError as {@link Nft.streamSet}; NFT_OUTPUT for a listing that is not understood
 */
export async function listItems(
  nft: TableReader,
  family: Family,
  { name, value }: SetSpec,
  take: (item: unknown) => void,
  signal?: AbortSignal,
): Promise<void> {
  const parser = new SetListingParser(take);
  let isListed = false;
  for await (const text of nft.streamSet(family, value === undefined ? "set" : "map", name, { signal })) {
    parser.push(text);
    isListed = true;
  }
  if (isListed) parser.end();
}
