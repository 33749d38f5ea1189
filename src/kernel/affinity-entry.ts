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
 * @param servicePortId the id of the Service port's lists
 * @returns undefined if there is no entry for the client, or no such map
 * @throws AppError as `Nft.getElement` does
 */
export async function affinityEntry(
  nft: Nft,
  family: Family,
  map: string,
  client: string,
  servicePortId: number,
): Promise<AffinityEntry | undefined> {
  const text = await nft.getElement(family, map, joinParts(formatClassid(servicePortId), client));
  const [, expires = "0s", id] = ELEMENT.exec(text ?? "") ?? [];
  if (id === undefined) return undefined;
  return { family, map, key: joinParts(servicePortId, client), value: String(parseClassid(id)), expires };
}
