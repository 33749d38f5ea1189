import { messageOf } from "../base/errors.ts";
import type { AnyChain, AnyTable } from "../nft/ast/any-table.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { anyTables } from "../nft/canonical/any-tables.ts";
import { readListing } from "../nft/canonical/parse.ts";
import type { Nft } from "./nft.ts";

const HOOKS: ReadonlySet<string> = new Set(["prerouting", "input", "forward", "output", "postrouting"]);

/**
 * Reads the tables of other software that see IP packets at the hooks that we follow, one by one: a table that this
 * nft cannot list does not hide the others, and is there with a rule that is not understood in each base chain.
 * @throws AppError NFT_MISSING, NFT_TIMEOUT, NFT_OUTPUT when not even the chains can be listed
 */
export async function readOtherTables(nft: Nft): Promise<AnyTable[]> {
  const known = anyTables(readListing(await nft.listChains()));
  const hooked = known.filter(({ name, chains }) => name !== TABLE_NAME && [...chains.values()].some(isHooked));
  const tables: AnyTable[] = [];
  for (const table of hooked) tables.push(...(await readTable(nft, table)));
  return tables;
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
