import { findNodeAtLocation, type Node, parseTree, printParseErrorCode, visit } from "jsonc-parser";
import { LineCounter } from "yaml";
import { parsedJson } from "../../base/text.ts";
import { positionAt, unreadable } from "./diagnostic.ts";
import { DEEPEST, type InputDocument } from "./yaml.ts";

/**
 * Maximum length of a text whose lines are known without `uniqueKeys`: the syntax tree takes 20 times the
 * memory of the text.
 */
const LONGEST_WITH_LINES = 1024 * 1024;

/**
 * Parses a JSON text of one or more documents in a row. An empty text is an error: it is likely a truncated
 * file.
 * @param uniqueKeys reject an object that has a key twice, as the API server and kubectl do. This takes
 * longer than parsing
 * @throws AppError UNREADABLE_INPUT with file, line, column and reason
 */
export function parseJson(text: string, file: string, uniqueKeys: boolean): InputDocument[] {
  const documents: InputDocument[] = [];
  const areLinesKnown = uniqueKeys || text.length <= LONGEST_WITH_LINES;
  let start = 0;
  do {
    // The whole rest first, because large files have one document. V8 11 reports the offset of an error only
    // sometimes.
    let value = parsedJson(text.slice(start));
    let end = text.length;
    if (value === undefined || uniqueKeys) {
      end = endOfFirst(text, start, file, uniqueKeys);
      value ??= JSON.parse(text.slice(start, end));
    }
    const lineOf = areLinesKnown ? lineFinder(text, start) : () => undefined;
    documents.push({ number: documents.length + 1, value, lineOf });
    start = end;
  } while (start < text.length);
  return documents;
}

/**
 * Returns the offset at which the second document begins, or the end of the text.
 * @throws AppError UNREADABLE_INPUT for the first error
 */
function endOfFirst(text: string, start: number, file: string, uniqueKeys: boolean): number {
  let end = text.length;
  /** The keys so far of each open object; none of an array. */
  const open: Set<string>[] = [];
  const failed = (reason: string, offset: number) =>
    unreadable(file, reason, positionAt(text, start + offset));
  const begin = (offset: number) => {
    if (open.push(new Set()) > DEEPEST) throw failed(`nests deeper than ${DEEPEST} levels`, offset);
  };
  const visitor = {
    onObjectBegin: begin,
    onObjectEnd: () => void open.pop(),
    onArrayBegin: begin,
    onArrayEnd: () => void open.pop(),
    onObjectProperty: (key: string, offset: number) => {
      if (uniqueKeys && open.at(-1)?.has(key)) throw failed(`duplicate key ${JSON.stringify(key)}`, offset);
      open.at(-1)?.add(key);
    },
    onError: (code: number, offset: number) => {
      const found = text.charAt(start + offset);
      if (printParseErrorCode(code) === "EndOfFileExpected") end = start + offset;
      else if (found === "") throw failed("the JSON ends too early", offset);
      else throw failed(`invalid JSON: unexpected ${JSON.stringify(found)}`, offset);
    },
  };
  visit(text.slice(start), visitor, { disallowComments: true });
  return end;
}

/**
 * Finds lines in the valid JSON document that begins at `start`. It builds the syntax tree for the first one.
 * A document that nests too deeply for a tree has no lines.
 */
function lineFinder(text: string, start: number): InputDocument["lineOf"] {
  let tree: Node | undefined;
  let lines: LineCounter | undefined;
  return (keys) => {
    try {
      tree ??= parseTree(text.slice(start));
    } catch (error) {
      if (error instanceof RangeError) return undefined;
      throw error;
    }
    let node = tree;
    for (const key of keys) {
      const next = node && findNodeAtLocation(node, [node.type === "array" ? Number(key) : key]);
      if (next === undefined) break;
      node = next;
    }
    const { offset = 0 } = (node?.parent?.type === "property" ? node.parent : node) ?? {};
    lines ??= lineCounter(text);
    return lines.linePos(start + offset).line;
  };
}

function lineCounter(text: string): LineCounter {
  const lines = new LineCounter();
  lines.addNewLine(0);
  for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", end + 1)) lines.addNewLine(end + 1);
  return lines;
}
