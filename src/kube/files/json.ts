import { positionAt, unreadable } from "./diagnostic.ts";
import { duplicateKey } from "./json-duplicates.ts";
import { jsonLines } from "./json-lines.ts";
import { cutList, type LongList } from "./json-list.ts";
import { scanJson } from "./json-scan.ts";
import type { InputDocument } from "./yaml.ts";

/** Lists of fewer characters are parsed as a whole, so that diagnostics can name lines. */
const LONG = 1024 * 1024;

/**
 * Parses a JSON text of one or more documents in a row. An empty text is an error: it is likely a truncated file.
 * @param uniqueKeys reject an object that has a key twice, which takes longer than to parse it
 * @throws AppError UNREADABLE_INPUT with file, line, column and reason
 */
export function parseJson(text: string, file: string, uniqueKeys: boolean): InputDocument[] {
  const documents: InputDocument[] = [];
  let start = 0;
  do {
    const { value, end } = parseFirst(text, start, file);
    const duplicate = uniqueKeys ? duplicateKey(text, start, end) : undefined;
    if (duplicate !== undefined)
      throw unreadable(file, `duplicate key ${JSON.stringify(duplicate.key)}`, positionAt(text, duplicate.offset));
    documents.push({ number: documents.length + 1, value, lineOf: jsonLines(text, start) });
    start = end + (/^\s+/.exec(text.slice(end))?.[0].length ?? 0);
  } while (start < text.length);
  return documents;
}

/**
 * Parses a long list. Its items are parsed during their iteration, which throws as {@link parseJson} does.
 * @returns undefined for any other text
 */
export function parseLongList(text: string, file: string): InputDocument | undefined {
  const list = text.length > LONG ? cutList(text) : undefined;
  if (list === undefined) return undefined;
  return { number: 1, value: list.frame, items: readItems(list, text, file), lineOf: () => undefined };
}

function* readItems({ items }: LongList, text: string, file: string): Generator<unknown> {
  try {
    yield* items;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    parseFirst(text, 0, file);
    throw unreadable(file, error.message);
  }
}

/** Parses the first document. It tries the whole rest of the text first, because large files have one document. */
function parseFirst(text: string, start: number, file: string): { readonly value: unknown; readonly end: number } {
  try {
    return { value: JSON.parse(text.slice(start)), end: text.length };
  } catch {
    const scan = scanJson(text, start);
    if (scan.kind === "value") return { value: JSON.parse(text.slice(start, scan.end)), end: scan.end };
    const found = text.slice(scan.offset, scan.offset + 1);
    const reason = found === "" ? "the JSON ends too early" : `invalid JSON: unexpected ${JSON.stringify(found)}`;
    throw unreadable(file, reason, positionAt(text, scan.offset));
  }
}
