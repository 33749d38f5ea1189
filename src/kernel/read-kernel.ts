import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError, messageOf } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { ElementSet, Ruleset, SetSpec, Table } from "../nft/ast/ruleset.ts";
import { parseElement } from "../nft/canonical/elements.ts";
import { parseListing, readListing } from "../nft/canonical/parse.ts";
import { SetListingParser } from "../nft/canonical/set-listing.ts";
import { diffDeclarations, type ElementsDelta, isEmptyDelta, type TableDelta } from "../nft/delta.ts";
import { SetComparison } from "../nft/set-comparison.ts";
import type { Nft } from "./nft.ts";

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

/** The differences of nft-proxy's tables in the kernel from the desired ones. */
export type KernelComparison = { readonly kind: "compared"; readonly differences: readonly TableDelta[] } | Unreadable;

/**
 * Reads nft-proxy's tables of the given families, set by set. The dynamic maps, which packets fill, are never listed:
 * 200,000 clients take 6 s, and all other sets of a large cluster 0.6 s (nft 1.1.3).
 * @throws AppError when nft cannot work at all, so that nothing is known of the tables: as {@link Nft.apply} does
 */
export async function readKernel(nft: Nft, families: readonly Family[]): Promise<KernelState> {
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

/**
 * Compares nft-proxy's tables with the desired ones while nft lists them, as often as is necessary giving way to other
 * work: neither the listing nor what is right in it is kept.
 * @param desired may change meanwhile: see {@link SetComparison}; a family that it does not have is not looked at
 */
export async function compareKernel(nft: Nft, desired: Ruleset): Promise<KernelComparison> {
  const differences: TableDelta[] = [];
  try {
    for (const table of Object.values(desired)) {
      const actual = await declaredTable(nft, table.family);
      const delta = diffDeclarations(actual, table);
      const elements = delta.mode === "change" ? await compareSets(nft, actual, table) : delta.elements;
      const whole = { ...delta, elements };
      if (delta.mode !== "change" || !isEmptyDelta(whole)) differences.push(whole);
    }
    return { kind: "compared", differences };
  } catch (error) {
    return unreadable(error);
  }
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
async function declaredTable(nft: Nft, family: Family): Promise<Table | undefined> {
  const text = await nft.listTable(family);
  return text === undefined ? undefined : parseListing(readListing(text))[family];
}

async function readSets(nft: Nft, { family, sets }: Table): Promise<Map<string, ElementSet>> {
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

async function compareSets(nft: Nft, actual: Table | undefined, desired: Table): Promise<ElementsDelta[]> {
  const result: ElementsDelta[] = [];
  for (const set of desired.sets.values()) {
    if (set.spec.dynamic) continue;
    const comparison = new SetComparison(set);
    let expected = 0;
    for (const key of set.elements.keys()) {
      comparison.expect(key);
      if (++expected % KEYS_PER_TURN === 0) await nextTurn();
    }
    const known = actual?.sets.get(set.spec.name);
    if (known !== undefined) {
      await listElements(nft, desired.family, known.spec, (key, value) => comparison.listed(key, value));
    }
    result.push(...comparison.result());
  }
  return result;
}

/** Hands over the elements of a set or map one by one, in canonical form; none of a dynamic one. */
async function listElements(
  nft: Nft,
  family: Family,
  spec: SetSpec,
  take: (key: string, value: string) => void,
): Promise<void> {
  if (spec.dynamic) return;
  await listItems(nft, family, spec, (item) => {
    const { key, value } = parseElement(spec, item);
    take(key, value);
  });
}

/**
 * Hands over the elements of a set or map one by one as nft prints them, none when it is not there.
 * @throws AppError as {@link Nft.streamSet}; NFT_OUTPUT for a listing that is not understood
 */
export async function listItems(
  nft: Nft,
  family: Family,
  { name, value }: SetSpec,
  take: (item: unknown) => void,
): Promise<void> {
  const parser = new SetListingParser(take);
  let isListed = false;
  for await (const text of nft.streamSet(family, value === undefined ? "set" : "map", name)) {
    parser.push(text);
    isListed = true;
  }
  if (isListed) parser.end();
}
