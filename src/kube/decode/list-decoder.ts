import { parsedJson } from "../../base/text.ts";

/** A list without its items, which one placeholder represents. */
type Frame = Readonly<Record<string, unknown>>;

/**
 * Matches the beginning of a list up to the bracket, and captures the text from there to the first item's
 * first key.
 */
const BEGINNING = /^[^[]{0,4096}?"items"\s*:\s*\[(\s*\{\s*"[^"\\]*"\s*:)/;
/** A list whose items do not begin within this many characters is parsed as a whole. */
const LONGEST_BEGINNING = 8192;
/**
 * Maximum length of a text that is searched for the end of an item; the rest is parsed as a whole. The API
 * server stores objects of at most 1.5 MiB, and writes all items alike. Characters.
 */
const LONGEST_ITEM = 8 * 1024 * 1024;
/** Maximum length of the fields after the items. Characters. */
const LONGEST_END = 8192;
/** The placeholder for the items in the frame around them. */
const PLACE = "nft-proxy: the items";

/**
 * Parses an API list item by item while its text arrives, so that neither the text nor the objects of the
 * list are in memory as a whole: a list of 10,000 EndpointSlices takes 200 MB when parsed as a whole. The
 * text is split wherever it repeats the beginning of the first item. A part that is not valid JSON was split
 * within an item, and is joined with the next one. Safe: every part, and the frame around them, must parse as
 * JSON.
 */
export class ListDecoder {
  readonly #take: (item: unknown) => void;
  /** The text that is not parsed yet. */
  #text = "";
  /** The text before the first item. */
  #beginning = "";
  /** The text between two items and at the beginning of the second; undefined until the first item begins. */
  #separator: string | undefined;
  /** The offset in the text at which the next separator may begin. */
  #searchFrom = 0;
  /**
   * A part with fewer characters is not parsed: each malformed part doubles it, so that damaged text costs
   * linear time.
   */
  #shortestPart = 0;
  /** True if no items begin where expected: the list is parsed as a whole. */
  #isWhole = false;

  /** @param take called with each item, before the list is known to be complete and valid */
  constructor(take: (item: unknown) => void) {
    this.#take = take;
  }

  /** Parses the items that `text`, the next piece of the list, completes. */
  push(text: string): void {
    this.#text += text;
    if (this.#separator === undefined) this.#findBeginning();
    const isBounded = this.#text.length < LONGEST_ITEM;
    if (this.#separator !== undefined && isBounded) this.#takeItems(this.#separator);
  }

  /**
   * Parses the rest of the list, after the last piece.
   * @returns the list; a placeholder may be in place of its items
   * @throws SyntaxError if the text is not JSON, or not a list
   */
  end(): Frame {
    if (this.#separator === undefined) return this.#parseWhole();
    const rest = this.#text;
    const first = Math.max(0, rest.length - LONGEST_END);
    // The last item ends before the last bracket, or before an earlier one if fields with arrays follow.
    for (let end = rest.lastIndexOf("]"); end > first; end = rest.lastIndexOf("]", end - 1)) {
      const frame = parsedJson(`${this.#beginning}"${PLACE}"${rest.slice(end)}`) as Frame | undefined;
      const items = frame?.items;
      const isFrame = Array.isArray(items) && items.length === 1 && items[0] === PLACE;
      if (frame !== undefined && isFrame && this.#takePart(0, end)) return frame;
    }
    throw notJson();
  }

  #findBeginning(): void {
    if (this.#isWhole) return;
    const [found = "", head] = BEGINNING.exec(this.#text) ?? [];
    this.#isWhole = head === undefined && this.#text.length > LONGEST_BEGINNING;
    if (head === undefined) return;
    this.#beginning = found.slice(0, found.length - head.length);
    this.#text = this.#text.slice(this.#beginning.length);
    this.#separator = `,${head}`;
    this.#searchFrom = head.length;
  }

  #takeItems(separator: string): void {
    let start = 0;
    let from = this.#searchFrom;
    for (
      let end = this.#text.indexOf(separator, from);
      end !== -1;
      end = this.#text.indexOf(separator, from)
    ) {
      from = end + separator.length;
      if (end - start < this.#shortestPart) continue;
      if (this.#takePart(start, end)) {
        start = end + 1;
        this.#shortestPart = 0;
      } else this.#shortestPart = 2 * (end - start);
    }
    this.#searchFrom = Math.max(from, this.#text.length - separator.length + 1) - start;
    this.#text = this.#text.slice(start);
  }

  /**
   * Takes the items in a part of the text: one, or several if some begin differently. False if it is not
   * valid JSON.
   */
  #takePart(start: number, end: number): boolean {
    const items = parsedJson(`[${this.#text.slice(start, end)}]`) as readonly unknown[] | undefined;
    for (const item of items ?? []) this.#take(item);
    return items !== undefined;
  }

  #parseWhole(): Frame {
    const list = parsedJson(this.#text) as Frame | null | undefined;
    if (list === undefined) throw notJson();
    // A list without items may have `null` there: Go's empty slice.
    const items = list?.items ?? [];
    if (!Array.isArray(items)) throw new SyntaxError("the list is not a Kubernetes list");
    for (const item of items) this.#take(item);
    return list ?? {};
  }
}

function notJson(): SyntaxError {
  return new SyntaxError(`the list is not JSON, or more than ${LONGEST_END} characters follow its items`);
}
