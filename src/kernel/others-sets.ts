import type { Clock } from "../base/clock.ts";
import { counted } from "../base/text.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { type NetlinkRequests, netlinkRequests, REQUESTS } from "./netlink-requests.ts";
import type { Nft } from "./nft.ts";
import { tableNames } from "./nft-listings.ts";

/** A table of other software with many sets. nft reads them before transactions that change both families. */
export interface CostlyTable {
  /** Family and name: `ip kube-proxy`. */
  readonly table: string;
  /** Number of its sets and maps, including anonymous ones. */
  readonly sets: number;
  /** CPU time that nft takes to read them, milliseconds; computed from their number. */
  readonly ms: number;
}

/**
 * CPU time that nft 1.1.3 takes to read one set without its elements, milliseconds. See
 * docs/dev/decisions/others-sets.md.
 */
const MS_PER_SET = 0.002;

/**
 * Minimum number of sets that is reported: nft takes 10 ms to read them. Unlike a measured time, it does not
 * depend on other load.
 */
const MANY_SETS = 5000;

/**
 * Finds the tables of other software with at least 5,000 sets, the largest first.
 * @throws AppError as nft does, and HOST if socat fails
 */
export async function costlyTables(nft: Nft, clock: Clock): Promise<CostlyTable[]> {
  const requests = netlinkRequests(clock);
  const found: CostlyTable[] = [];
  try {
    for (const table of await tableNames(nft)) {
      const sets = table.endsWith(` ${TABLE_NAME}`) ? 0 : await countSets(requests, table);
      if (sets >= MANY_SETS) found.push({ table, sets, ms: Math.round(sets * MS_PER_SET) });
    }
  } finally {
    requests.close();
  }
  return found.sort((a, b) => b.sets - a.sets);
}

/** Returns the number of sets and maps of a table; 0 if it does not exist. */
async function countSets(requests: NetlinkRequests, table: string): Promise<number> {
  const [family = "", name = ""] = table.split(" ");
  const request = REQUESTS.sets(family, name);
  if (request === undefined) return 0;
  let count = 0;
  for await (const messages of requests.ask(request))
    count += messages.filter(({ kind }) => kind === "set").length;
  return count;
}

/** Formats a table for the log and the status page: `ip kube-proxy: 10000 sets, 20 ms`. */
export function costlyTableText({ table, sets, ms }: CostlyTable): string {
  return `${table}: ${counted(sets, "set")}, ${ms} ms`;
}

/** Returns advice on tables with many sets. */
export function costlyTablesAdvice(tables: readonly CostlyTable[]): string {
  return tables.some(({ table }) => / kube-proxy$/.test(table))
    ? "if kube-proxy has been replaced: stop it on this node, then nft-proxy cleanup --kube-proxy"
    : "remove the sets that their software no longer uses, or configure it to keep fewer";
}
