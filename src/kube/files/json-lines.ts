import { createScanner, type JSONScanner } from "jsonc-parser";
import { LineCounter } from "yaml";
import type { InputDocument } from "./yaml.ts";

/** The index of a member (of its key, or of the array item), and the index of its value. */
interface Place {
  readonly at: number;
  readonly value: number;
}

/**
 * Returns a function that finds the line of a value in a JSON text. Objects and arrays are scanned when they are first
 * needed, and once only, so that many queries about a long list cost one scan.
 * @param text valid JSON from `start` on
 * @param start the index in `text` where the document begins, before or after white space
 */
export function jsonLines(text: string, start: number): InputDocument["lineOf"] {
  let lines: LineCounter | undefined;
  const scanner = createScanner(text);
  const places = new Map<number, ReadonlyMap<string, Place>>();
  return (keys) => {
    scanner.setPosition(start);
    nextToken(scanner);
    let at = scanner.getTokenOffset();
    let value = at;
    for (const key of keys) {
      const members = places.get(value) ?? membersOf(scanner, value);
      places.set(value, members);
      const next = members.get(key);
      if (next === undefined) break;
      ({ at, value } = next);
    }
    lines ??= lineCounter(text);
    return lines.linePos(at).line;
  };
}

/** The first character of a token, 0 for all scalars but strings; "" at the end of the text, and for what JSON does not have. */
export type JsonToken = "{" | "}" | "[" | "]" | "," | ":" | '"' | "0" | "";

/** The tokens by jsonc-parser's `SyntaxKind`, a constant enum, which cannot be imported. */
const TOKENS: readonly JsonToken[] = ["", "{", "}", "[", "]", ",", ":", "0", "0", "0", '"', "0"];
const [LINE_BREAK, BLANKS] = [14, 15];

/** Moves a scanner to the next token that is not white space. */
export function nextToken(scanner: JSONScanner): JsonToken {
  let kind: number = scanner.scan();
  while (kind === LINE_BREAK || kind === BLANKS) kind = scanner.scan();
  return currentToken(scanner);
}

function currentToken(scanner: JSONScanner): JsonToken {
  return scanner.getTokenError() === 0 ? (TOKENS[scanner.getToken()] ?? "") : "";
}

/** Returns the members of the object or array that begins at an index; none for a scalar. */
function membersOf(scanner: JSONScanner, start: number): Map<string, Place> {
  const members = new Map<string, Place>();
  scanner.setPosition(start);
  const opening = nextToken(scanner);
  if (depthChange(opening) !== 1) return members;
  for (let token = nextToken(scanner); depthChange(token) !== -1; token = nextToken(scanner)) {
    if (token === ",") continue;
    const at = scanner.getTokenOffset();
    let key = String(members.size);
    if (opening === "{") {
      key = scanner.getTokenValue();
      nextToken(scanner);
      nextToken(scanner);
    }
    members.set(key, { at, value: scanner.getTokenOffset() });
    skipValue(scanner);
  }
  return members;
}

/** Moves a scanner from the first token of a value to its last one. */
function skipValue(scanner: JSONScanner): void {
  let depth = depthChange(currentToken(scanner));
  while (depth > 0) depth += depthChange(nextToken(scanner));
}

function depthChange(token: JsonToken): number {
  if (token === "{" || token === "[") return 1;
  return token === "}" || token === "]" ? -1 : 0;
}

function lineCounter(text: string): LineCounter {
  const lines = new LineCounter();
  lines.addNewLine(0);
  for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", end + 1)) lines.addNewLine(end + 1);
  return lines;
}
