import { messageOf } from "../base/errors.ts";
import type { ByFamily } from "../base/family.ts";
import type { AnyChain, AnyTable, TableFamily } from "../nft/ast/any-table.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { anyTables } from "../nft/canonical/any-tables.ts";
import { readListing } from "../nft/canonical/parse.ts";
import type { Nft } from "./nft.ts";

const HOOKS: ReadonlySet<string> = new Set(["prerouting", "input", "forward", "output", "postrouting"]);

/** The tables of other software that see IP packets at the hooks that we follow, in the order of their creation. */
export interface OtherTables {
  readonly tables: readonly AnyTable[];
  /** How many of them were made before nft-proxy's table of a family; all where it has none. */
  readonly older: ByFamily<number>;
}

/**
 * Reads the tables of other software, one by one: a table that this nft cannot list does not hide the others, and is there
 * with a rule that is not understood in each base chain.
 * @throws AppError NFT_MISSING, NFT_TIMEOUT, NFT_OUTPUT when not even the chains can be listed
 */
export async function readOtherTables(nft: Nft): Promise<OtherTables> {
  const tables: AnyTable[] = [];
  const older: Partial<Record<TableFamily, number>> = {};
  for (const table of anyTables(readListing(await nft.listChains()))) {
    if (table.name === TABLE_NAME) older[table.family] = tables.length;
    else if ([...table.chains.values()].some(isHooked)) tables.push(...(await readTable(nft, table)));
  }
  return { tables, older: { ip: older.ip ?? tables.length, ip6: older.ip6 ?? tables.length } };
}

function isHooked({ base }: AnyChain): boolean {
  return base !== undefined && HOOKS.has(base.hook);
}

async function readTable(nft: Nft, known: AnyTable): Promise<readonly AnyTable[]> {
  try {
    const json = await nft.listTableOf(known, "json");
    const text = await nft.listTableOf(known, "text");
    return json === undefined ? [] : anyTables(readListing(json), text);
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
