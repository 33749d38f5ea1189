/** A list that is parsed item by item. */
export interface LongList {
  /** The list's own fields. */
  readonly frame: { readonly kind: string; readonly apiVersion: string };
  /** The items; can be iterated once. The iteration throws a SyntaxError for malformed JSON. */
  readonly items: Iterable<unknown>;
}

/** Matches the beginning of a list up to the bracket, and captures the text from there to the first item's first key. */
export const LIST_BEGINNING = /^[^[]{0,4096}?"items"\s*:\s*\[(\s*\{\s*"[^"\\]*"\s*:)/;
/** The placeholder for the items in the frame. */
const PLACE = "nft-proxy: the items";

/**
 * Splits the text of a long API list into its items and parses one at a time: a list of 10,000 EndpointSlices takes
 * 200 MB when parsed as a whole. The text is split wherever the text repeats with which the first item begins. The split
 * is right if each part and the frame around them are valid JSON. If a part is not, the whole text is parsed instead.
 * @returns undefined for any other text
 */
export function cutList(text: string): LongList | undefined {
  const [beginning = "", head] = LIST_BEGINNING.exec(text) ?? [];
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

/** Returns the items from an index on. Called when the text was split within an item, or continues after the items. */
function restOf(list: Readonly<Record<string, unknown>>, { kind, apiVersion }: LongList["frame"], from: number) {
  const { items } = list;
  // The last of repeated keys counts, but items of an earlier one were yielded already.
  const isSame = list.kind === kind && list.apiVersion === apiVersion && Array.isArray(items) && items.length >= from;
  if (!isSame) throw new SyntaxError("a key is repeated");
  return items.slice(from);
}

/** Parses JSON. Returns undefined if it is malformed. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
