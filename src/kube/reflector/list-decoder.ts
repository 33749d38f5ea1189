import { StringDecoder } from "node:string_decoder";
import { ApiFailure } from "../client/api-failure.ts";
import { LIST_BEGINNING } from "../files/json-list.ts";
import { metadataOf } from "./object-store.ts";

/** The part of a list that follows its items. */
export interface ListEnd {
  /** The resourceVersion to watch from. */
  readonly version: string;
  /** The token of the next page, "" after the last. */
  readonly next: string;
}

/** A list whose items do not begin within so many characters is parsed as a whole. */
const LONGEST_BEGINNING = 8192;
/** The placeholder for the items in the frame around them. */
const PLACE = "nft-proxy: the items";

/**
 * Parses an API list item by item while its bytes arrive, so that neither the text nor the objects of a page are in memory
 * as a whole. The text is split wherever the text repeats with which the first item begins. A part that is not valid JSON
 * was split within an item, and is joined with the next one. The split is right because all parts and the frame around
 * them are valid JSON in the end.
 */
export class ListDecoder {
  readonly #take: (item: unknown) => void;
  readonly #decoder = new StringDecoder("utf8");
  /** The text that is not parsed yet. */
  #text = "";
  /** The text before the first item. */
  #beginning = "";
  /** The text between two items and at the beginning of the second; undefined until the first item begins. */
  #separator: string | undefined;
  /** Where in the text the next separator may begin. */
  #searchFrom = 0;
  /** True if no items begin where expected: the list is parsed as a whole. */
  #isWhole = false;

  /** @param take called with each item, before the list is known to be complete and valid */
  constructor(take: (item: unknown) => void) {
    this.#take = take;
  }

  /** Parses the items that `chunk` completes. */
  push(chunk: Uint8Array): void {
    this.#text += this.#decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    if (this.#separator === undefined) this.#findBeginning();
    if (this.#separator !== undefined) this.#takeItems(this.#separator);
  }

  /**
   * Parses the rest of the list, after the last chunk.
   * @throws ApiFailure (parse) if the text is not JSON, or not a Kubernetes list
   */
  end(): ListEnd {
    this.#text += this.#decoder.end();
    const list = this.#separator === undefined ? this.#parseWhole() : this.#parseEnd();
    const { resourceVersion, continue: next } = metadataOf(list);
    if (typeof resourceVersion !== "string" || resourceVersion === "") throw notAList();
    return { version: resourceVersion, next: typeof next === "string" ? next : "" };
  }

  #findBeginning(): void {
    if (this.#isWhole) return;
    const [beginning = "", head] = LIST_BEGINNING.exec(this.#text) ?? [];
    this.#isWhole = head === undefined && this.#text.length > LONGEST_BEGINNING;
    if (head === undefined) return;
    this.#beginning = beginning.slice(0, beginning.length - head.length);
    this.#text = this.#text.slice(this.#beginning.length);
    this.#separator = `,${head}`;
    this.#searchFrom = head.length;
  }

  #takeItems(separator: string): void {
    let start = 0;
    let from = this.#searchFrom;
    for (let end = this.#text.indexOf(separator, from); end !== -1; end = this.#text.indexOf(separator, from)) {
      from = end + separator.length;
      if (this.#takePart(start, end)) start = end + 1;
    }
    this.#searchFrom = Math.max(from, this.#text.length - separator.length + 1) - start;
    this.#text = this.#text.slice(start);
  }

  /** Takes the items in a part of the text: one, or several if some begin differently. False if it is not valid JSON. */
  #takePart(start: number, end: number): boolean {
    const items = parsed(`[${this.#text.slice(start, end)}]`) as readonly unknown[] | undefined;
    for (const item of items ?? []) this.#take(item);
    return items !== undefined;
  }

  /** The last item ends before the last bracket, or before an earlier one if fields with arrays follow the items. */
  #parseEnd(): unknown {
    for (let end = this.#text.lastIndexOf("]"); end > 0; end = this.#text.lastIndexOf("]", end - 1)) {
      const frame = parsed(`${this.#beginning}"${PLACE}"${this.#text.slice(end)}`);
      const items = (frame as { readonly items?: unknown } | undefined)?.items;
      if (!Array.isArray(items) || items.length !== 1 || items[0] !== PLACE) continue;
      if (!this.#takePart(0, end)) throw notJson();
      return frame;
    }
    throw notJson();
  }

  #parseWhole(): unknown {
    const list = parsed(this.#text);
    if (list === undefined) throw notJson();
    // A list without items may have `null` there: Go's empty slice.
    const items = (list as { readonly items?: unknown } | null)?.items ?? [];
    if (!Array.isArray(items)) throw notAList();
    for (const item of items) this.#take(item);
    return list;
  }
}

/** Parses JSON. Returns undefined if it is malformed. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function notJson(): ApiFailure {
  return new ApiFailure("parse", "the list is not JSON");
}

function notAList(): ApiFailure {
  return new ApiFailure("parse", "the list is not a Kubernetes list");
}
