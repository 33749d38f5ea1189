import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { SetSpec } from "../nft/ast/ruleset.ts";
import type { ListedElement } from "../nft/elements.ts";
import { NftStoppedError } from "./nft-errors.ts";

/** Reads our tables in the kernel. */
export interface TableReader {
  /**
   * Lists our table of one family without elements.
   * @returns nft's JSON text, undefined if there is no such table
   * @throws AppError as nft does
   */
  listTable(family: Family, signal?: AbortSignal): Promise<string | undefined>;
  /**
   * Yields the elements of one of our sets or maps in batches; none if it does not exist. Elements that are
   * added or deleted meanwhile may be missing or repeated. So may others: the kernel finds its place again by
   * counting, and a commit that deletes 2,000 elements hides as many others (6.18).
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

/** Reads a kernel as if it had none of our tables, for a dry run. */
export const NO_TABLES: TableReader = {
  listTable: async () => undefined,
  async *elements() {},
  element: async () => undefined,
};

/**
 * Returns a reader of the remaining times of a set's elements, in milliseconds rounded up to seconds, in the
 * order in which they expire. Empty if there is no such set or it cannot be read: a sync must not fail.
 */
export function remainingTimes(
  tables: Pick<TableReader, "elements">,
): (family: Family, spec: SetSpec) => Promise<ReadonlyMap<string, number>> {
  return async (family, spec) => {
    const times: [string, number][] = [];
    try {
      for await (const batch of tables.elements(family, spec))
        for (const { key, expiresMs = 0 } of batch) times.push([key, 1000 * Math.ceil(expiresMs / 1000)]);
    } catch (error) {
      if (error instanceof AppError && !(error instanceof NftStoppedError)) return new Map();
      throw error;
    }
    return new Map(times.sort(([, a], [, b]) => a - b));
  };
}
