import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { TableName } from "../nft/ast/any-table.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { readListing } from "../nft/canonical/parse.ts";
import type { Nft } from "./nft.ts";

/**
 * Lists our table of one family without elements. Never the whole ruleset: other software's tables may hold
 * what this nft cannot print.
 * @param signal ends the listing
 * @returns nft's JSON text, undefined when there is no such table
 * @throws as {@link Nft.list}, which holds for all of these
 */
export async function listTable(nft: Nft, family: Family, signal?: AbortSignal): Promise<string | undefined> {
  return await nft.list(["-j", "-t", "list", "table", family, TABLE_NAME], { signal });
}

/**
 * Lists a table of any software with its elements, and never more than this one.
 * @param as "text" is nft's own language, each rule with its handle
 * @param signal ends the listing
 * @returns undefined when there is no such table
 */
export async function listTableOf(
  nft: Nft,
  { family, name }: TableName,
  as: "json" | "text",
  signal?: AbortSignal,
): Promise<string | undefined> {
  return await nft.list([as === "json" ? "-j" : "-a", "list", "table", family, name], { signal });
}

/** The tables of this network namespace, everyone's, by name alone: `ip nft-proxy`. */
export async function tableNames(nft: Nft): Promise<Set<string>> {
  const text = (await nft.list(["-j", "list", "tables"])) ?? "";
  return new Set(readListing(text).objects.flatMap(tableName));
}

function tableName(object: unknown): string[] {
  const { table } = object as { table?: { family: string; name: string } };
  return table === undefined ? [] : [`${table.family} ${table.name}`];
}

/**
 * Lists the chains of this network namespace, everyone's, without rules: nothing that others put into a table can
 * keep nft from printing them (1.0.6 survives this beside maps on which its listing of tables crashes).
 * @returns nft's JSON text
 */
export async function listChains(nft: Nft): Promise<string> {
  return (await nft.list(["-j", "list", "chains"])) ?? "";
}

/** Lists the flow tables of this network namespace with their devices, everyone's. @returns nft's JSON text */
export async function listFlowtables(nft: Nft): Promise<string> {
  return (await nft.list(["-j", "list", "flowtables"])) ?? '{"nftables": []}';
}

/** nft's own version line, such as `nftables v1.1.3 (Commodore Bullmoose #4)`; "" for a program that tells none. */
export async function nftVersion(nft: Nft): Promise<string> {
  const text = await nft.list(["--version"]).catch((error: unknown) => {
    if (error instanceof AppError && error.code === "NFT_OUTPUT") return "";
    throw error;
  });
  return (text ?? "").trim();
}
