import { isRecord, parsedJson } from "../../base/text.ts";

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
/** The placeholder for the items that were taken before the end. */
const PLACE = "nft-proxy: the items";

/**
 * Parses an API list item by item while its text arrives, so that neither the text nor the objects of the
 * list are in memory as a whole: a list of 10,000 EndpointSlices takes 200 MB when parsed as a whole. The
 * text is split wherever it repeats the beginning of the first item. A part that is not valid JSON was split
 * within an item, and is joined with the next one. Safe: every part, and the list without them, must parse as
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

  /** @param take called with each item, before the list is known to be complete and valid */
  constructor(take: (item: unknown) => void) {
    this.#take = take;
  }

  /** Parses the items that `text`, the next piece of the list, completes. */
  push(text: string): void {
    const mayBegin = this.#separator === undefined && this.#text.length <= LONGEST_BEGINNING;
    this.#text += text;
    if (mayBegin) this.#findBeginning();
    const isBounded = this.#text.length < LONGEST_ITEM;
    if (this.#separator !== undefined && isBounded) this.#takeItems(this.#separator);
  }

  /**
   * Parses the rest of the list, after the last piece.
   * @returns the list; the items taken before are missing
   * @throws SyntaxError if the text is not JSON, or not a list
   */
  end(): Readonly<Record<string, unknown>> {
    // If this is not the first item of the list, items of another array were taken.
    const place = this.#separator === undefined ? "" : `"${PLACE}",`;
    const list = parsedJson(`${this.#beginning}${place}${this.#text}`);
    if (list === undefined) throw new SyntaxError("the list is not JSON");
    const fields = isRecord(list) ? list : {};
    // A list without items may have `null` there: Go's empty slice.
    const items = fields.items ?? [];
    if (!Array.isArray(items) || (place !== "" && items.shift() !== PLACE))
      throw new SyntaxError("the list is not a Kubernetes list");
    for (const item of items) this.#take(item);
    return fields;
  }

  #findBeginning(): void {
    const [found = "", head] = BEGINNING.exec(this.#text) ?? [];
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
}
