/** A list that is read one item after the other. */
export interface LongList {
  /** The list without its items, and perhaps without other things after them. */
  readonly frame: { readonly kind: string; readonly apiVersion: string };
  /** To be gone through once. Throws a SyntaxError when it comes to what is not JSON. */
  readonly items: Iterable<unknown>;
}

/** The beginning of a list of objects: up to the bracket, and from there to the first key of the first item. */
const BEGINNING = /^[^[]{0,4096}?"items"\s*:\s*\[(\s*\{\s*"[^"\\]*"\s*:)/;
/** Stands for the items in the frame. */
const PLACE = "nft-proxy: the items";

/**
 * Cuts the text of a long API list into its items, so that no more than one of them is in memory at a time: of a list
 * of 10,000 EndpointSlices the whole takes 200 MB. It guesses where items begin, by the text with which the first
 * one does, and takes the guess for true as long as every piece is JSON by itself, and the frame around them is: then
 * the whole text is, and these are its items. Otherwise the rest is parsed at once.
 * @returns undefined for a text that is no such list, or may not be one
 */
export function cutList(text: string): LongList | undefined {
  const [beginning = "", head] = BEGINNING.exec(text) ?? [];
  if (head === undefined) return undefined;
  const from = beginning.length - head.length;
  const until = text.lastIndexOf("]");
  const frame = frameOf(`${text.slice(0, from)}"${PLACE}"${text.slice(until)}`);
  return frame === undefined
    ? undefined
    : { frame, items: itemsOf(text, frame, { from, until, separator: `,${head}` }) };
}

interface Cuts {
  readonly from: number;
  readonly until: number;
  readonly separator: string;
}

function frameOf(text: string): LongList["frame"] | undefined {
  const frame = parsed(text);
  if (typeof frame !== "object" || frame === null) return undefined;
  const { kind, apiVersion, items } = frame as Readonly<Record<string, unknown>>;
  if (!Array.isArray(items) || items.length !== 1 || items[0] !== PLACE) return undefined;
  return typeof kind === "string" && typeof apiVersion === "string" ? { kind, apiVersion } : undefined;
}

function* itemsOf(text: string, frame: LongList["frame"], { from, until, separator }: Cuts): Generator<unknown> {
  let count = 0;
  for (let start = from; start < until; count++) {
    const next = text.indexOf(separator, start);
    const end = next === -1 || next > until ? until : next;
    const item = parsed(text.slice(start, end));
    if (item === undefined) {
      yield* restOf(JSON.parse(text), frame, count);
      return;
    }
    yield item;
    start = end + 1;
  }
}

/** The separator stands inside of an item, too, or not between all of them, or there is more after the items. */
function restOf(list: Readonly<Record<string, unknown>>, { kind, apiVersion }: LongList["frame"], from: number) {
  const { items } = list;
  // With keys that are repeated, the last counts: too late for what has been given out.
  const isSame = list.kind === kind && list.apiVersion === apiVersion && Array.isArray(items) && items.length >= from;
  if (!isSame) throw new SyntaxError("a key is repeated");
  return items.slice(from);
}

/** Undefined for what is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
