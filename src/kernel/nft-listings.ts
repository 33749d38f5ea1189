import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { TableName } from "../nft/ast/any-table.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { listedObjects } from "../nft/canonical/parse.ts";
import type { Nft } from "./nft.ts";

/**
 * Lists our table of one family without elements. Never lists the whole ruleset, as tables of other software
 * may contain objects that this nft cannot print.
 * @param signal ends the listing
 * @returns nft's JSON text, undefined if there is no such table
 * @throws as {@link Nft.list}; this holds for all functions here
 */
export async function listTable(nft: Nft, family: Family, signal?: AbortSignal): Promise<string | undefined> {
  return await nft.list(["-j", "-t", "list", "table", family, TABLE_NAME], signal);
}

/**
 * Lists only one table, of any software, with its elements.
 * @param as "text" is nft's own language, each rule with its handle
 * @param signal ends the listing
 * @returns undefined if there is no such table
 */
export async function listTableOf(
  nft: Nft,
  { family, name }: TableName,
  as: "json" | "text",
  signal?: AbortSignal,
): Promise<string | undefined> {
  return await nft.list([as === "json" ? "-j" : "-a", "list", "table", family, name], signal);
}

/** Returns the names of all tables in this network namespace, including other software's: `ip nft-proxy`. */
export async function tableNames(nft: Nft): Promise<Set<string>> {
  const text = (await nft.list(["-j", "list", "tables"])) ?? "";
  const tables = listedObjects(text).filter(({ kind }) => kind === "table");
  return new Set(tables.map(({ body }) => `${body.family} ${body.name}`));
}

/**
 * Lists all chains in this network namespace, without rules: no object in a table can keep nft from printing
 * them. nft 1.0.6 survives this even with maps that crash its listing of tables.
 * @returns nft's JSON text
 */
export async function listChains(nft: Nft): Promise<string> {
  return (await nft.list(["-j", "list", "chains"])) ?? "";
}

/** Lists all flow tables in this network namespace, with their devices. @returns nft's JSON text */
export async function listFlowtables(nft: Nft): Promise<string> {
  return (await nft.list(["-j", "list", "flowtables"])) ?? '{"nftables": []}';
}

/** Returns nft's version line, such as `nftables v1.1.3 (Commodore Bullmoose #4)`. */
export async function nftVersion(nft: Nft): Promise<string> {
  const text = await nft.list(["--version"]).catch((error: unknown) => {
    if (error instanceof AppError && error.code === "NFT_OUTPUT") return "";
    throw error;
  });
  return (text ?? "").trim();
}
