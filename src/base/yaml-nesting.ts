import { type CST, Lexer, type LineCounter, Parser } from "yaml";

/** Collections are nested too deeply to be composed. */
export class TooDeepError extends Error {}

/**
 * The tokens of a YAML (or JSON) text for the composer, as Parser.parse gives them.
 * @param lines told where lines begin
 * @throws TooDeepError in place of a document that nests collections deeper than that many levels; see
 *   {@link nestsDeeperThan}
 */
export function* shallowTokens(text: string, levels: number, lines: LineCounter): Generator<CST.Token> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    if (isTooDeep(parser, levels)) throw new TooDeepError();
  }
  yield* parser.end();
}

/** The document itself is on the stack, too, and the scalar that is being read. */
function isTooDeep({ stack }: Parser, levels: number): boolean {
  return stack.length > levels + 2;
}

/**
 * Whether YAML (or JSON) nests collections deeper than that many levels; stops reading where it does. To be asked
 * before a text from outside is composed: composing recurses, and where it exhausts the stack while V8 compiles a
 * regular expression, the whole process dies (yaml 2.9, Node 20: "RegExpCompiler Allocation failed").
 */
export function nestsDeeperThan(text: string, levels: number): boolean {
  const parser = new Parser();
  for (const lexeme of new Lexer().lex(text)) {
    for (const _ of parser.next(lexeme)) {
      // The tokens are made all the same; only how many are open counts.
    }
    if (isTooDeep(parser, levels)) return true;
  }
  return false;
}
