import { durationText } from "../base/duration.ts";
import type { Family } from "../base/family.ts";
import type { SetSpec } from "../nft/ast/ruleset.ts";
import { joinParts } from "../nft/elements.ts";
import type { TableReader } from "./table-reader.ts";

/** The affinity entry of one client, an element of a map that packets fill. */
export interface AffinityEntry {
  readonly family: Family;
  readonly map: string;
  /** The client and the id of the Service port's lists, as canonical text. */
  readonly key: string;
  /** The endpoint's id, a decimal number. */
  readonly value: string;
  /** The time until it expires, as text: `9m58s`. */
  readonly expires: string;
}

/**
 * Looks up one client in an affinity map.
 * @param id id of the Service port, combined with that of a list where clients have an entry for each list
 * @returns undefined if there is no entry for the client, or no such map
 * @throws AppError as {@link TableReader.element} does
 */
export async function affinityEntry(
  tables: Pick<TableReader, "element">,
  family: Family,
  spec: SetSpec,
  client: string,
  id: number,
): Promise<AffinityEntry | undefined> {
  const key = joinParts(id, client);
  const entry = await tables.element(family, spec, key);
  if (entry === undefined) return undefined;
  const expires = durationText(Math.floor((entry.expiresMs ?? 0) / 1000));
  return { family, map: spec.name, key, value: entry.value, expires };
}
