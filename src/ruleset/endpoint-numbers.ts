import { FIRST_ENDPOINT, MOST_STICKY_ENDPOINTS } from "./list-ids.ts";

/**
 * Assigns the values of a list to the indexes 0 to N-1 so that as few indexes as possible change: a value that had an
 * index below N keeps it; the others take the free indexes.
 * @param previous the value at each index before; anything, also values that are not in the list or there twice
 * @param values N different values
 * @returns `values` itself when that is the result
 */
export function placed(previous: readonly string[], values: readonly string[]): readonly string[] {
  if (previous === values || previous.length === 0) return values;
  const waiting = new Set(values);
  const result = new Array<string | undefined>(values.length);
  for (const [index, value] of previous.slice(0, values.length).entries()) {
    if (waiting.delete(value)) result[index] = value;
  }
  fill(result, waiting);
  const placement = result as string[];
  return placement.every((value, index) => value === values[index]) ? values : placement;
}

/** Puts the values into the free indexes, of which there are as many. */
function fill(result: (string | undefined)[], values: ReadonlySet<string>): void {
  let index = 0;
  for (const value of values) {
    while (result[index] !== undefined) index += 1;
    result[index] = value;
  }
}

/** The ids of a service port's endpoints, by target: numbers that are added to its own id. */
export type EndpointIds = ReadonlyMap<string, number>;

/**
 * Gives endpoints ids: those that have one keep it, so that their clients stay, and the others get free ones, by their
 * hash, so that clients of an endpoint that is gone are not all sent to one that comes.
 * @param targets `address . port`, {@link MOST_STICKY_ENDPOINTS} at most; sorted
 * @param known ids of the same service port; numbers that are no ids, and the second of two equal ones, are ignored
 */
export function endpointIds(targets: Iterable<string>, known: EndpointIds): EndpointIds {
  const ids = new Map<string, number>();
  const taken = new Set<number>();
  const arriving: string[] = [];
  for (const target of targets) {
    const id = known.get(target);
    if (
      id === undefined ||
      taken.has(id) ||
      id < FIRST_ENDPOINT ||
      id >= FIRST_ENDPOINT + MOST_STICKY_ENDPOINTS
    ) {
      arriving.push(target);
      continue;
    }
    ids.set(target, id);
    taken.add(id);
  }
  for (const target of arriving) {
    let place = hashText(target) % MOST_STICKY_ENDPOINTS;
    while (taken.has(FIRST_ENDPOINT + place)) place = (place + 1) % MOST_STICKY_ENDPOINTS;
    ids.set(target, FIRST_ENDPOINT + place);
    taken.add(FIRST_ENDPOINT + place);
  }
  return ids;
}

/** FNV-1a with MurmurHash3's finalizer, which spreads the differences of like addresses over all bits. */
function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
