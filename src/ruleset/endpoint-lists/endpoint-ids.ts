import type { Endpoint } from "../../model/endpoint.ts";

/** Which list an endpoint id belongs to: a client of one list must not be kept on an endpoint of another. */
export type EndpointList = "cluster" | "local" | "shortcut";

/** Ids start here, above the indexes. */
const ID_BASE = 0xc000_0000;
const LIST_BITS: Readonly<Record<EndpointList, number>> = { cluster: 0, local: 0x2000_0000, shortcut: 0x1000_0000 };

/** Ids of the first versions started here, with one more bit of the hash. */
const FORMER_ID_BASE = 0x8000_0000;
const FORMER_HASH_MASK = 0x1fff_ffff;
const HASH_MASK = FORMER_HASH_MASK >>> 1;

/**
 * An id for each endpoint of a list: the same for the same endpoint as long as it is there, whatever others come
 * and go, except where two of them collide, which the order of targets decides.
 * @param endpoints sorted by target
 * @returns 32-bit unsigned numbers, unique, in the order of `endpoints`
 */
export function endpointIds(endpoints: readonly Endpoint[], list: EndpointList): number[] {
  const taken = new Set<number>();
  return endpoints.map(({ target }) => {
    let hash = (hashText(target) & FORMER_HASH_MASK) >>> 1;
    while (taken.has(hash)) hash = (hash + 1) & HASH_MASK;
    taken.add(hash);
    return ID_BASE + LIST_BITS[list] + hash;
  });
}

/**
 * The id of today for an id that a former version gave, so that clients stay sticky over an upgrade.
 * @param former from a map that was declared by type names
 */
export function upgradedId(former: number): number {
  return ID_BASE + Math.floor((former - FORMER_ID_BASE) / 2);
}

/** FNV-1a with MurmurHash3's finalizer, which spreads the differences of like addresses over all bits. */
function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}
