import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import type { Nft } from "./nft.ts";

/** A table of other software, and what it adds to each transaction before which nft reads the sets of all tables. */
export interface CostlyTable {
  /** Family and name: `ip kube-proxy`. */
  readonly table: string;
  readonly ms: number;
}

/** What is worth telling, milliseconds. */
const WORTH_TELLING = 10;

/** A busy machine makes every reading longer: the shortest of so many counts. */
const READINGS = 3;

/**
 * The tables of other software whose sets take nft more than 10 ms to read, the longest first. Takes some 4 ms of CPU
 * three times for each table, and what is found.
 * @throws AppError as nft does
 */
export async function costlyTables(nft: Pick<Nft, "tableNames" | "setsReadingTime">): Promise<CostlyTable[]> {
  const times = new Map<string, number>();
  for (const table of await nft.tableNames()) {
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < READINGS; i++) least = Math.min(least, await nft.setsReadingTime(table));
    times.set(table, least);
  }
  // What nft takes in any case.
  const bare = Math.min(...times.values());
  return [...times]
    .map(([table, time]) => ({ table, ms: Math.round(time - bare) }))
    .filter(({ table, ms }) => ms > WORTH_TELLING && !table.endsWith(` ${TABLE_NAME}`))
    .sort((a, b) => b.ms - a.ms);
}

/** What to do about tables that cost time. */
export function costlyTablesAdvice(tables: readonly CostlyTable[]): string {
  return tables.some(({ table }) => / kube-proxy$/.test(table))
    ? "if kube-proxy has been replaced: stop it on this node, then nft-proxy cleanup --kube-proxy"
    : "remove what their software does not use any more, or let it keep fewer sets";
}
