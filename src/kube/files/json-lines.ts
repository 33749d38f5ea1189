import type { InputDocument } from "./yaml.ts";

/**
 * Where things stand in a JSON text. Nothing is done before it is asked; then each object and array on the way is gone
 * through once, with what is within passed over, so that a long list costs one reading, however many lines of it are
 * asked for.
 * @param text known to be JSON from `start` on
 * @param start where the document begins, as an index into `text`; blanks may come first
 */
export function jsonLines(text: string, start: number): InputDocument["lineOf"] {
  let lines: LineIndex | undefined;
  const places = new Map<number, ReadonlyMap<string, Place>>();
  return (keys) => {
    let { at, value }: Place = placeAt(text, start);
    for (const key of keys) {
      const members = places.get(value) ?? membersOf(text, value);
      places.set(value, members);
      const next = members.get(key);
      if (next === undefined) break;
      ({ at, value } = next);
    }
    lines ??= new LineIndex(text);
    return lines.lineAt(at);
  };
}

/** Where a member stands (its key, or the item itself), and where its value begins. */
interface Place {
  readonly at: number;
  readonly value: number;
}

const QUOTE = 34;
const BACKSLASH = 92;
const BLANKS = /[ \t\r\n]*/y;

function placeAt(text: string, from: number): Place {
  const at = skipBlanks(text, from);
  return { at, value: at };
}

/** The members of the object, or the items of the array, that begins at an index; none of a scalar. */
function membersOf(text: string, start: number): Map<string, Place> {
  const members = new Map<string, Place>();
  const isArray = text[start] === "[";
  if (!isArray && text[start] !== "{") return members;
  let at = skipBlanks(text, start + 1);
  while (at < text.length && text[at] !== "]" && text[at] !== "}") {
    const keyEnd = isArray ? at : skipText(text, at);
    const value = isArray ? at : skipBlanks(text, skipBlanks(text, keyEnd) + 1);
    members.set(isArray ? String(members.size) : (JSON.parse(text.slice(at, keyEnd)) as string), { at, value });
    at = skipBlanks(text, skipValue(text, value));
    if (text[at] === ",") at = skipBlanks(text, at + 1);
  }
  return members;
}

function skipBlanks(text: string, from: number): number {
  BLANKS.lastIndex = from;
  BLANKS.exec(text);
  return BLANKS.lastIndex;
}

/** The end of the text whose opening quote is at an index. */
function skipText(text: string, from: number): number {
  let end = text.indexOf('"', from + 1);
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end + 1;
}

function isEscaped(text: string, quote: number): boolean {
  let before = quote - 1;
  while (text.charCodeAt(before) === BACKSLASH) before -= 1;
  return (quote - before) % 2 === 0;
}

/** The end of the value that begins at an index. One pass over character codes: of a list, it sees every item. */
function skipValue(text: string, from: number): number {
  let depth = 0;
  let at = from;
  do {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = skipText(text, at) - 1;
    else if (code === 0x5b || code === 0x7b) depth += 1;
    else if (code === 0x5d || code === 0x7d) depth -= 1;
    else if (depth === 0) return skipScalar(text, at);
    at += 1;
  } while (depth > 0 && at < text.length);
  return at;
}

function skipScalar(text: string, from: number): number {
  let at = from;
  while (at < text.length && !" \t\r\n,]}".includes(text[at] as string)) at += 1;
  return at;
}

/** Line numbers of indices into a text. */
class LineIndex {
  readonly #ends: number[] = [];

  constructor(text: string) {
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", end + 1)) this.#ends.push(end);
  }

  /** From 1. */
  lineAt(index: number): number {
    let [low, high] = [0, this.#ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#ends[middle] as number) < index) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  }
}
