import type { Family } from "../base/family.ts";
import { formatClassid, parseClassid } from "../nft/canonical/constant.ts";
import { joinParts } from "../nft/elements.ts";
import type { Nft } from "./nft.ts";

/** The affinity entry of one client: an element of a map that packets fill. */
export interface AffinityEntry {
  readonly family: Family;
  readonly map: string;
  /** The client and the id of the Service port's lists, as canonical text. */
  readonly key: string;
  /** The endpoint's id, a decimal number. */
  readonly value: string;
  /** The time until it expires, in nft's format: `9m58s`. */
  readonly expires: string;
}

/** Matches `{ KEY timeout 10m expires 9m58s824ms : 8000:1234 }`; milliseconds are dropped. */
const ELEMENT = /\bexpires (?:\d+ms|(\S+?)(?:\d+ms)?) : (\S+) \}/;

/**
 * Looks up one client in an affinity map. Listing the whole map would take seconds when it is full.
 * @param id of the Service port, with that of a list where clients have an entry for each list
 * @returns undefined if there is no entry for the client, or no such map
 * @throws AppError as `Nft.getElement` does
 */
export async function affinityEntry(
  nft: Nft,
  family: Family,
  map: string,
  client: string,
  id: number,
): Promise<AffinityEntry | undefined> {
  const text = await nft.getElement(family, map, joinParts(formatClassid(id), client));
  const [, expires = "0s", endpoint] = ELEMENT.exec(text ?? "") ?? [];
  if (endpoint === undefined) return undefined;
  return { family, map, key: joinParts(id, client), value: String(parseClassid(endpoint)), expires };
}
