import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { SetSpec } from "../nft/ast/ruleset.ts";
import { NftStoppedError } from "./nft-errors.ts";
import type { TableReader } from "./table-reader.ts";

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
