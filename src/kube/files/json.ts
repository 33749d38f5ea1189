import { positionAt, unreadable } from "./diagnostic.ts";
import { jsonLines } from "./json-lines.ts";
import { cutList, type LongList } from "./json-list.ts";
import { scanJson } from "./json-scan.ts";
import type { InputDocument } from "./yaml.ts";

/** A list of fewer characters is read at once: its lines can be told. */
const LONG = 1024 * 1024;

/**
 * The documents of a JSON text: one, or several in a row, as commands print them one after another. An
 * empty text is none: it is more likely a file cut short.
 *
 * Throws UNREADABLE_INPUT with file, line, column and reason.
 */
export function parseJson(text: string, file: string): InputDocument[] {
  const documents: InputDocument[] = [];
  let start = 0;
  do {
    const { value, end } = parseFirst(text, start, file);
    documents.push({ number: documents.length + 1, value, lineOf: jsonLines(text, start) });
    start = end + (/^\s+/.exec(text.slice(end))?.[0].length ?? 0);
  } while (start < text.length);
  return documents;
}

/**
 * As {@link parseJson} for a long list, whose items are parsed as they are asked for; undefined for any other text.
 * That the text is not JSON may come out only then: it throws as parseJson does.
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

/** Parses all that is left in the hope that it is one document, which it is in all large files. */
function parseFirst(text: string, start: number, file: string): { readonly value: unknown; readonly end: number } {
  try {
    return { value: JSON.parse(text.slice(start)), end: text.length };
  } catch {
    const scan = scanJson(text, start);
    if (scan.kind === "value") return { value: JSON.parse(text.slice(start, scan.end)), end: scan.end };
    const found = text.slice(scan.offset, scan.offset + 1);
    const reason = found === "" ? "the JSON ends too early" : `this is not JSON: unexpected ${JSON.stringify(found)}`;
    throw unreadable(file, reason, positionAt(text, scan.offset));
  }
}
