import { notUnderstood } from "./shape.ts";

const BEGINNING = /"elem"\s*:\s*\[/;
const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [BRACKET, CLOSING_BRACKET, BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Parses the listing of one set or map (`nft -j list map ip nft-proxy endpoints`) while nft prints it.
 * 100,000 elements are 10 MB of text and, parsed as a whole, ten times that as objects. So each chunk of text
 * is parsed separately, keeping only an incomplete element.
 */
export class SetListingParser {
  readonly #take: (element: unknown) => void;
  /** The text before the elements. */
  #frame = "";
  /** The unparsed text. */
  #text = "";
  #place: "before" | "elements" | "after" = "before";
  /** The offset up to which brackets and quotes were counted. */
  #scanned = 0;
  /** Number of open brackets and braces there, within the list of elements. */
  #depth = 0;
  #isQuoted = false;

  /** @param take called with each element, while the listing may still be incomplete */
  constructor(take: (element: unknown) => void) {
    this.#take = take;
  }

  /**
   * Parses the elements that a chunk of text completes.
   * @throws AppError NFT_OUTPUT if the text is not JSON
   */
  push(text: string): void {
    this.#text += text;
    if (this.#place === "before") this.#findElements();
    if (this.#place === "elements") this.#takeElements();
  }

  /** Ends the text. @throws AppError NFT_OUTPUT if the listing is incomplete */
  end(): void {
    parsed(this.#frame + this.#text);
  }

  #findElements(): void {
    const found = BEGINNING.exec(this.#text);
    if (found === null) return;
    const end = found.index + found[0].length;
    this.#frame = this.#text.slice(0, end);
    this.#text = this.#text.slice(end);
    this.#place = "elements";
  }

  #takeElements(): void {
    const end = this.#scan();
    for (const element of parsed(`[${this.#text.slice(0, end)}]`) as readonly unknown[]) this.#take(element);
    const isMoreDue = this.#place === "elements";
    const start = isMoreDue && end > 0 ? end + 1 : end;
    this.#text = this.#text.slice(start);
    this.#scanned -= start;
  }

  /** Finds the end of the last complete element: the comma or the end of the list; 0 for none. */
  #scan(): number {
    let end = 0;
    for (; this.#scanned < this.#text.length; this.#scanned++) {
      const code = this.#text.charCodeAt(this.#scanned);
      if (this.#isQuoted) {
        if (code === BACKSLASH) this.#scanned++;
        else if (code === QUOTE) this.#isQuoted = false;
      } else if (code === QUOTE) this.#isQuoted = true;
      else if (code === COMMA && this.#depth === 0) end = this.#scanned;
      else if (code === BRACKET || code === BRACE) this.#depth++;
      else if (code === CLOSING_BRACKET || code === CLOSING_BRACE) {
        if (this.#depth === 0) {
          this.#place = "after";
          return this.#scanned;
        }
        this.#depth--;
      }
    }
    return end;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notUnderstood("text that is not JSON", text);
  }
}
