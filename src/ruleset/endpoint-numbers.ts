import { scatter } from "../base/jhash.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import { FIRST_ENDPOINT, MOST_STICKY_ENDPOINTS, parseId } from "./list-ids.ts";
import { ENDPOINTS } from "./sets.ts";

/**
 * Assigns the values of a list to the indexes 0 to N-1 with few changes: a value keeps its index if that is
 * below N; the others take free indexes.
 * @param previous the earlier value at each index; may have duplicates and values that are not in the list
 * @param values N different values, sorted
 * @param before the different values of `previous`, sorted; found out if absent, which takes longer
 * @returns `values` itself if that is the result
 */
export function placed(
  previous: readonly string[],
  values: readonly string[],
  before: readonly string[] = [...new Set(previous)].sort(),
): readonly string[] {
  if (previous === values || previous.length === 0) return values;
  const { gone, come: waiting } = difference(before, values);
  const seen = previous.length === before.length ? undefined : new Set<string>();
  const result = new Array<string | undefined>(values.length);
  for (let index = 0; index < previous.length; index++) {
    const value = previous[index] as string;
    if (gone.has(value) || seen?.has(value)) continue;
    if (index < values.length) result[index] = value;
    else waiting.push(value);
    seen?.add(value);
  }
  let index = 0;
  for (const value of waiting.sort()) {
    while (result[index] !== undefined) index++;
    result[index] = value;
  }
  const placement = result as string[];
  return placement.every((value, at) => value === values[at]) ? values : placement;
}

/** The values that only one of two sorted lists has: without a set of all values, which takes longer. */
function difference(
  before: readonly string[],
  after: readonly string[],
): { readonly gone: ReadonlySet<string>; readonly come: string[] } {
  const gone = new Set<string>();
  const come: string[] = [];
  let index = 0;
  for (const value of after) {
    for (let known = before[index]; known !== undefined && known < value; known = before[++index])
      gone.add(known);
    if (before[index] === value) index++;
    else come.push(value);
  }
  for (const known of before.slice(index)) gone.add(known);
  return { gone, come };
}

/** The ids of a service port's endpoints by target: numbers to add to its own id. */
export type EndpointIds = ReadonlyMap<string, number>;

/**
 * Gives ids to endpoints. Endpoints keep theirs, so that their clients stay. Others get free ids by their
 * hash, so that the clients of a deleted endpoint do not all move to one new endpoint.
 * @param targets `address . port`, at most {@link MOST_STICKY_ENDPOINTS}; sorted
 * @param known ids of the same service port; invalid and duplicate ids are ignored
 */
export function endpointIds(targets: Iterable<string>, known: EndpointIds): EndpointIds {
  const ids = new Map<string, number>();
  const taken = new Set<number>();
  const arriving: string[] = [];
  for (const target of targets) {
    const id = known.get(target) ?? 0;
    if (id < FIRST_ENDPOINT || id >= FIRST_ENDPOINT + MOST_STICKY_ENDPOINTS || taken.has(id)) {
      arriving.push(target);
      continue;
    }
    ids.set(target, id);
    taken.add(id);
  }
  const nextOf = new Map<number, number>();
  for (const target of arriving) {
    const place = freePlace(hashText(target) % MOST_STICKY_ENDPOINTS, taken, nextOf);
    ids.set(target, FIRST_ENDPOINT + place);
    taken.add(FIRST_ENDPOINT + place);
  }
  return ids;
}

/**
 * The first free place from a given one on. Remembers how far it went: whoever writes EndpointSlices can
 * choose 16,000 addresses with the same hash, and each would pass all places of those before it.
 * @param taken the ids that are taken
 * @param nextOf where to go on from taken places, if that is not the next one; extended
 */
function freePlace(first: number, taken: ReadonlySet<number>, nextOf: Map<number, number>): number {
  const passed: number[] = [];
  let place = first;
  while (taken.has(FIRST_ENDPOINT + place)) {
    passed.push(place);
    place = nextOf.get(place) ?? (place + 1) % MOST_STICKY_ENDPOINTS;
  }
  for (const one of passed) nextOf.set(one, place);
  return place;
}

/** The ids of endpoints in a table: service port id to target to id. */
export function endpointIdsIn({ sets }: Table): ReadonlyMap<number, ReadonlyMap<string, number>> {
  const found = new Map<number, Map<string, number>>();
  for (const [key, target] of sets.get(ENDPOINTS)?.elements ?? []) {
    const id = Number.parseInt(key, 10);
    const parsed = parseId(id);
    if (parsed === undefined || !parsed.isSticky) continue;
    const ids = found.get(parsed.servicePort) ?? new Map<string, number>();
    found.set(parsed.servicePort, ids.set(target, id - parsed.servicePort));
  }
  return found;
}

/** FNV-1a, with its bits mixed by `scatter`. */
function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return scatter(hash);
}
