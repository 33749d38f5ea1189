import { createScanner, type JSONScanner } from "jsonc-parser";
import { frameOf, ListDecoder } from "../decode/list-decoder.ts";
import { positionAt, unreadable } from "./diagnostic.ts";
import { type JsonToken, jsonLines, nextToken } from "./json-lines.ts";
import type { InputDocument } from "./yaml.ts";

/** Characters. */
const LONG = 1024 * 1024;
/** Characters of a long list that are parsed at a time. */
const PIECE = 65_536;

/**
 * Parses a JSON text of one or more documents in a row. An empty text is an error: it is likely a truncated file.
 * @param uniqueKeys reject an object that has a key twice, as the API server and kubectl do. It takes longer than to parse it
 * @throws AppError UNREADABLE_INPUT with file, line, column and reason
 */
export function parseJson(text: string, file: string, uniqueKeys: boolean): InputDocument[] {
  const documents: InputDocument[] = [];
  let start = 0;
  do {
    const { value, end } = parseFirst(text, start, file, uniqueKeys);
    documents.push({ number: documents.length + 1, value, lineOf: jsonLines(text, start) });
    start = end + (/^\s+/.exec(text.slice(end))?.[0].length ?? 0);
  } while (start < text.length);
  return documents;
}

/**
 * Parses a long list. Its items are parsed during their iteration, which throws as {@link parseJson} does.
 * @param longerThan characters: shorter lists are parsed as a whole, so that diagnostics can name lines
 * @returns undefined for any other text
 */
export function parseLongList(text: string, file: string, longerThan = LONG): InputDocument | undefined {
  const frame = text.length > longerThan ? frameOf(text) : undefined;
  if (typeof frame?.kind !== "string" || typeof frame.apiVersion !== "string") return undefined;
  const { kind, apiVersion } = frame;
  return { number: 1, value: { kind, apiVersion }, items: readItems(text, file), lineOf: () => undefined };
}

function* readItems(text: string, file: string): Generator<unknown> {
  let items: unknown[] = [];
  const decoder = new ListDecoder((item) => items.push(item));
  try {
    for (let at = 0; at < text.length; at += PIECE) {
      decoder.push(text.slice(at, at + PIECE));
      yield* items;
      items = [];
    }
    decoder.end();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    parseFirst(text, 0, file, true);
    throw unreadable(file, error.message);
  }
  yield* items;
}

/** Parses the first document. It tries the whole rest of the text first, because large files have one document. */
function parseFirst(
  text: string,
  start: number,
  file: string,
  uniqueKeys: boolean,
): { readonly value: unknown; readonly end: number } {
  let value: unknown;
  try {
    value = JSON.parse(text.slice(start));
    if (!uniqueKeys) return { value, end: text.length };
  } catch {
    // There are several documents, or an error, of which V8 11 reports the offset only sometimes.
  }
  const end = endOfFirst(text, start, file, uniqueKeys);
  return { value: value === undefined ? JSON.parse(text.slice(start, end)) : value, end };
}

type Expected = "value" | "value or ]" | "key" | "key or }" | ":" | ", or end";

/** Returns the end of the first value. @throws AppError UNREADABLE_INPUT for its first error */
function endOfFirst(text: string, start: number, file: string, uniqueKeys: boolean): number {
  const scanner = createScanner(text);
  scanner.setPosition(start);
  /** The keys so far of each open object; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  let expected: Expected = "value";
  do {
    const next: Expected | undefined = after(expected, nextToken(scanner), open);
    if (next === undefined) throw invalidJson(text, scanner, file);
    if (next === ":" && uniqueKeys) addKey(text, scanner, file, open.at(-1) ?? new Set());
    expected = next;
  } while (open.length > 0);
  return scanner.getPosition();
}

/** Returns what may follow a token; undefined if the token itself is not allowed. Updates the objects and arrays that are open. */
function after(
  expected: Expected,
  token: JsonToken,
  open: (Set<string> | undefined)[],
): Expected | undefined {
  const isValueDue = expected === "value" || expected === "value or ]";
  switch (token) {
    case "{":
    case "[":
      if (!isValueDue) return undefined;
      open.push(token === "{" ? new Set() : undefined);
      return token === "{" ? "key or }" : "value or ]";
    case "}":
      return (expected === ", or end" || expected === "key or }") && open.pop() !== undefined
        ? ", or end"
        : undefined;
    case "]":
      return (expected === ", or end" || expected === "value or ]") && open.pop() === undefined
        ? ", or end"
        : undefined;
    case ",":
      if (expected !== ", or end") return undefined;
      return open.at(-1) === undefined ? "value" : "key";
    case ":":
      return expected === ":" ? "value" : undefined;
    case '"':
      if (expected === "key" || expected === "key or }") return ":";
      return isValueDue ? ", or end" : undefined;
    case "0":
      return isValueDue ? ", or end" : undefined;
    case "":
      return undefined;
  }
}

function addKey(text: string, scanner: JSONScanner, file: string, keys: Set<string>): void {
  const key = scanner.getTokenValue();
  if (keys.has(key))
    throw unreadable(
      file,
      `duplicate key ${JSON.stringify(key)}`,
      positionAt(text, scanner.getTokenOffset()),
    );
  keys.add(key);
}

function invalidJson(text: string, scanner: JSONScanner, file: string): Error {
  const offset = scanner.getTokenOffset();
  const found = text.slice(offset, offset + 1);
  const reason =
    found === "" ? "the JSON ends too early" : `invalid JSON: unexpected ${JSON.stringify(found)}`;
  return unreadable(file, reason, positionAt(text, offset));
}
