import type { Family } from "../base/family.ts";
import { parseClassid } from "../nft/canonical/constant.ts";
import type { Nft } from "./nft.ts";

/** What a map of ours that packets fill remembers of one client. */
export interface AffinityEntry {
  readonly family: Family;
  readonly map: string;
  /** The client and the frontend, as canonical text. */
  readonly key: string;
  /** The endpoint's id, a decimal number. */
  readonly value: string;
  /** How much longer, as nft says it: `9m58s`. */
  readonly expires: string;
}

/** `{ KEY timeout 10m expires 9m58s824ms : 8000:1234 }`; what is less than a second is left out. */
const ELEMENT = /\bexpires (?:\d+ms|(\S+?)(?:\d+ms)?) : (\S+) \}/;

/**
 * Asks the kernel for one client alone: a listing of the whole map takes seconds when it is full.
 * @returns undefined when the client is not remembered, or there is no such map
 * @throws AppError as Nft does
 */
export async function affinityEntry(
  nft: Nft,
  family: Family,
  map: string,
  key: string,
): Promise<AffinityEntry | undefined> {
  const text = await nft.getElement(family, map, key);
  const [, expires = "0s", id] = ELEMENT.exec(text ?? "") ?? [];
  return id === undefined ? undefined : { family, map, key, value: String(parseClassid(id)), expires };
}
