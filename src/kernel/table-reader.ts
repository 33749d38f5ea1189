import type { Family } from "../base/family.ts";
import { type SetSpec, TABLE_NAME } from "../nft/ast/ruleset.ts";
import { parseListedElement } from "../nft/canonical/parse.ts";
import { SetListingParser } from "../nft/canonical/set-listing.ts";
import type { ListedElement } from "../nft/elements.ts";
import type { Nft } from "./nft.ts";
import { listTable } from "./nft-listings.ts";

/** Reads our tables in the kernel. */
export interface TableReader {
  /** Whether {@link TableReader.elements} yields every element that stays. */
  readonly isExact: boolean;
  /**
   * Lists our table of one family without elements.
   * @returns nft's JSON text, undefined if there is no such table
   * @throws AppError as nft does
   */
  listTable(family: Family, signal?: AbortSignal): Promise<string | undefined>;
  /**
   * Yields the elements of one of our sets or maps in batches; none if it does not exist. Elements that are
   * added or deleted meanwhile may be missing or repeated. So may others, unless `isExact`: the kernel finds
   * its place again by counting, and a commit that deletes 2,000 elements hides as many others (6.18).
   * @param spec its declaration in the kernel
   * @throws AppError NFT_OUTPUT for elements that are not understood; other errors of the program that reads
   * them
   */
  elements(family: Family, spec: SetSpec, signal?: AbortSignal): AsyncIterable<readonly ListedElement[]>;
  /**
   * Returns the element with a key, of a set or map without intervals; undefined if there is none.
   * @throws as {@link TableReader.elements}
   */
  element(family: Family, spec: SetSpec, key: string): Promise<ListedElement | undefined>;
}

/**
 * Reads everything with nft, for hosts without socat. nft restarts the listing of a set whenever rules change
 * meanwhile, and takes 2 s of CPU and 250 MB for 100,000 elements (1.1.3).
 */
export function nftTables(nft: Nft): TableReader {
  return {
    isExact: true,
    listTable: (family, signal) => listTable(nft, family, signal),
    elements: (family, spec, signal) => listedElements(nft, family, spec, signal),
    // `nft get element` also reads the whole set.
    element: async (family, spec, key) => {
      for await (const batch of listedElements(nft, family, spec, undefined)) {
        const found = batch.find((element) => element.key === key);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

async function* listedElements(
  nft: Nft,
  family: Family,
  spec: SetSpec,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly ListedElement[], void, undefined> {
  let batch: ListedElement[] = [];
  const parser = new SetListingParser((item) => batch.push(parseListedElement(spec, item)));
  let isListed = false;
  const kind = spec.value === undefined ? "set" : "map";
  for await (const text of nft.stream(["-j", "list", kind, family, TABLE_NAME, spec.name], signal)) {
    parser.push(text);
    isListed = true;
    if (batch.length === 0) continue;
    yield batch;
    batch = [];
  }
  if (isListed) parser.end();
}
