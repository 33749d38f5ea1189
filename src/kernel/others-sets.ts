import type { Clock } from "../base/clock.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import type { Nft } from "./nft.ts";
import { tableNames } from "./nft-listings.ts";

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
export async function costlyTables(nft: Nft, clock: Clock): Promise<CostlyTable[]> {
  const times = new Map<string, number>();
  for (const table of await tableNames(nft)) {
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < READINGS; i++) least = Math.min(least, await setsReadingTime(nft, clock, table));
    times.set(table, least);
  }
  // What nft takes in any case.
  const bare = Math.min(...times.values());
  return [...times]
    .map(([table, time]) => ({ table, ms: Math.round(time - bare) }))
    .filter(({ table, ms }) => ms > WORTH_TELLING && !table.endsWith(` ${TABLE_NAME}`))
    .sort((a, b) => b.ms - a.ms);
}

/** Milliseconds that nft takes to read the sets of a table, named or not, without their elements; 0 when it is not there. */
async function setsReadingTime(nft: Nft, clock: Clock, tableName: string): Promise<number> {
  const [family, table] = tableName.split(" ");
  // A listing of maps asks for all sets, and the last command limits it to the table: see transaction-text.ts.
  const nftables = [{ list: { maps: { family } } }, { list: { counters: { family, table } } }];
  const startedAt = clock.monotonic();
  const input = JSON.stringify({ nftables });
  const text = await nft.list(["-t", "-j", "-f", "-"], { input }).catch(() => undefined);
  return text === undefined ? 0 : clock.monotonic() - startedAt;
}

/** What to do about tables that cost time. */
export function costlyTablesAdvice(tables: readonly CostlyTable[]): string {
  return tables.some(({ table }) => / kube-proxy$/.test(table))
    ? "if kube-proxy has been replaced: stop it on this node, then nft-proxy cleanup --kube-proxy"
    : "remove what their software does not use any more, or let it keep fewer sets";
}
