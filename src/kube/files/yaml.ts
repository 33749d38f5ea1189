import {
  Composer,
  type Document,
  isMap,
  isNode,
  isSeq,
  Lexer,
  LineCounter,
  type ParsedNode,
  Parser,
} from "yaml";
import { shallowTokens } from "../../base/yaml-nesting.ts";
import { type Position, positionAt, unreadable } from "./diagnostic.ts";
import { plainValue } from "./yaml-value.ts";

/** A document of an input file. */
export interface InputDocument {
  /** From 1. */
  readonly number: number;
  readonly value: unknown;
  /**
   * Returns the line, from 1, of the value at a path, or of its deepest existing ancestor; undefined if
   * unknown.
   */
  readonly lineOf: (keys: readonly string[]) => number | undefined;
}

/**
 * Maximum length of a YAML text. Its syntax tree takes 60 times the memory of the text; JSON needs no tree.
 */
const MOST_CHARACTERS = 16 * 1024 * 1024;
/**
 * YAML allows no control characters but these. The parser accepts them, and a file has them after a crash
 * while it was written: its objects would have other kinds and names. Source:
 * https://yaml.org/spec/1.2.2/#51-character-set
 */
const CONTROL_CHARACTER = /[^\P{Cc}\t\n\r\x85]/u;
/**
 * Maximum nesting of YAML, and of JSON that needs more than parsing. Kubernetes objects have about 15 levels.
 */
export const DEEPEST = 64;

/**
 * Parses the documents of a YAML text (1.2, core schema) of at most 16 MiB and 64 levels. Empty documents are
 * dropped.
 * @throws AppError UNREADABLE_INPUT with file, line and reason for the first error: control characters,
 * syntax, duplicate keys, tags of types that JSON does not have, aliases that expand to too many nodes
 */
export function parseYaml(text: string, file: string): InputDocument[] {
  if (text.length > MOST_CHARACTERS)
    throw unreadable(file, "is more than 16 MiB of YAML", undefined, {
      hint: "Use JSON, which may be larger.",
    });
  const control = text.search(CONTROL_CHARACTER);
  if (control !== -1)
    throw unreadable(file, "has a control character, which YAML does not allow", positionAt(text, control));
  const lines = new LineCounter();
  const documents = compose(text, lines, file);
  return documents.flatMap((document, index) => {
    const diagnostic = document.errors[0] ?? document.warnings[0];
    const errorAt = (offset: number, reason: string) => unreadable(file, reason, positionOf(lines, offset));
    if (diagnostic !== undefined) throw errorAt(diagnostic.pos[0], diagnostic.message);
    const value = plainValue(document.contents, errorAt);
    const lineOf = (keys: readonly string[]) => lineIn(document, lines, keys);
    return value === null ? [] : [{ number: index + 1, value, lineOf }];
  });
}

/**
 * Duplicate keys are detected later, and messages do not quote the text: the package needs quadratic time for
 * both.
 */
function compose(text: string, lines: LineCounter, file: string): Document.Parsed[] {
  const composer = new Composer<ParsedNode>({ uniqueKeys: false, prettyErrors: false, logLevel: "error" });
  const tooDeep = (reason: string) => unreadable(file, reason);
  lines.addNewLine(0);
  const tokens = shallowTokens(new Parser(lines.addNewLine), new Lexer().lex(text), DEEPEST, tooDeep);
  return [...composer.compose(tokens)];
}

function positionOf(lines: LineCounter, offset: number): Position {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(line, 1), column: Math.max(col, 1) };
}

/** The line of the value at a path; in a map, the line of its key. */
function lineIn(document: Document.Parsed, lines: LineCounter, keys: readonly string[]): number {
  let node: unknown = document.contents;
  let offset = document.contents?.range[0] ?? 0;
  for (const key of keys) {
    const pair = isMap(node) ? node.items.find((each) => String(each.key) === key) : undefined;
    const value: unknown = isSeq(node) ? node.items[Number(key)] : pair?.value;
    const place = pair?.key ?? value;
    if (!isNode(place)) break;
    offset = place.range?.[0] ?? offset;
    node = value;
  }
  return positionOf(lines, offset).line;
}
