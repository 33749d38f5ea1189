import type { InputDocument } from "./yaml.ts";

/**
 * Returns a function that finds the line of a value in a JSON text. Objects and arrays are scanned when they are first
 * needed, and once only, without descending into other values, so that many queries about a long list cost one scan.
 * @param text valid JSON from `start` on
 * @param start the index in `text` where the document begins, before or after white space
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

/** The index of a member (of its key, or of the array item), and the index of its value. */
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

/** Returns the members of the object or array that begins at an index; none for a scalar. */
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

/** Returns the end of the string whose opening quote is at an index. */
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

/** Returns the end of the value that begins at an index. It works on character codes for speed. */
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

/** Maps indices of a text to line numbers. */
class LineIndex {
  readonly #ends: number[] = [];

  constructor(text: string) {
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", end + 1)) this.#ends.push(end);
  }

  /** Returns the line of an index, from 1. */
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
