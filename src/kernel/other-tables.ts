import { messageOf } from "../base/errors.ts";
import type { ByFamily } from "../base/family.ts";
import type { AnyChain, AnyTable, TableFamily, TableName } from "../nft/ast/any-table.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { anyTables } from "../nft/canonical/any-tables.ts";
import type { Nft } from "./nft.ts";
import { listChains, listTableOf } from "./nft-listings.ts";

const HOOKS: ReadonlySet<string> = new Set(["prerouting", "input", "forward", "output", "postrouting"]);

/** The tables of other software with chains on the hooks that we follow, in the order of their creation. */
export interface OtherTables {
  readonly tables: readonly AnyTable[];
  /** Number of tables that are older than nft-proxy's table of a family; all if it has none. */
  readonly older: ByFamily<number>;
}

/** nft's listings of the tables of other software. */
export interface OtherListings {
  /** JSON of all chains. */
  readonly chains: string;
  /** Tables with chains on the hooks, in the order of their creation. */
  readonly tables: readonly OtherListing[];
}

/**
 * A table as JSON and in nft's own language. Both are absent if it is gone; `problem` says why this nft
 * cannot list it.
 */
interface OtherListing extends TableName {
  readonly json?: string | undefined;
  readonly text?: string | undefined;
  readonly problem?: string;
}

/**
 * Lists the tables of other software one by one, so that a table that this nft cannot list does not hide the
 * others.
 * @param signal ends the listings
 * @param listOne lists one of them
 * @throws AppError NFT_MISSING, NFT_TIMEOUT, NFT_OUTPUT if the chains cannot be listed; the reason of
 * `signal`
 */
export async function listOtherTables(
  nft: Nft,
  signal?: AbortSignal,
  listOne: typeof listTableOf = listTableOf,
): Promise<OtherListings> {
  const chains = await listChains(nft);
  const tables: OtherListing[] = [];
  for (const { family, name, ...table } of anyTables(chains)) {
    const isHooked = [...table.chains.values()].some(({ base }) => base && HOOKS.has(base.hook));
    if (name === TABLE_NAME || !isHooked) continue;
    tables.push({ family, name, ...(await listingOf((as) => listOne(nft, { family, name }, as, signal))) });
    signal?.throwIfAborted();
  }
  return { chains, tables };
}

async function listingOf(
  list: (as: "json" | "text") => Promise<string | undefined>,
): Promise<Omit<OtherListing, keyof TableName>> {
  try {
    return { json: await list("json"), text: await list("text") };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

/**
 * Parses the listings. A table that could not be listed gets a rule that is not understood in each base
 * chain.
 * @throws AppError NFT_OUTPUT for listings that are not nft's
 */
export function otherTables({ chains, tables: listings }: OtherListings): OtherTables {
  const tables: AnyTable[] = [];
  const older: Partial<Record<TableFamily, number>> = {};
  for (const table of anyTables(chains)) {
    if (table.name === TABLE_NAME) older[table.family] = tables.length;
    const listing = listings.find(({ family, name }) => family === table.family && name === table.name);
    if (listing !== undefined) tables.push(...tablesOf(table, listing));
  }
  return { tables, older: { ip: older.ip ?? tables.length, ip6: older.ip6 ?? tables.length } };
}

function tablesOf(known: AnyTable, { json, text, problem }: OtherListing): readonly AnyTable[] {
  if (problem !== undefined) return [unreadable(known, problem)];
  try {
    return json === undefined ? [] : anyTables(json, text);
  } catch (error) {
    return [unreadable(known, messageOf(error))];
  }
}

function unreadable(table: AnyTable, reason: string): AnyTable {
  const chains = [...table.chains].map(([name, chain]): [string, AnyChain] => [
    name,
    { ...chain, rules: [[{ notUnderstood: reason }]], texts: [`(cannot be listed: ${reason})`] },
  ]);
  return { ...table, chains: new Map(chains) };
}
