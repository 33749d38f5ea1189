/** Collections are nested too deeply to be composed. */
export class TooDeepError extends Error {}

/** The part of yaml's Parser that is used here; its stack holds the open collections. */
export interface TokenParser<Token> {
  readonly stack: readonly unknown[];
  next(lexeme: string): Iterable<Token>;
  end(): Iterable<Token>;
}

/**
 * The tokens of a YAML (or JSON) text for the composer, as Parser.parse gives them.
 * @param lexemes of the text, from yaml's Lexer
 * @throws TooDeepError in place of a document that nests collections deeper than that many levels; see
 *   {@link nestsDeeperThan}
 */
export function* shallowTokens<Token>(
  parser: TokenParser<Token>,
  lexemes: Iterable<string>,
  levels: number,
): Generator<Token> {
  for (const lexeme of lexemes) {
    yield* parser.next(lexeme);
    if (isTooDeep(parser, levels)) throw new TooDeepError();
  }
  yield* parser.end();
}

/** The document itself is on the stack, too, and the scalar that is being read. */
function isTooDeep({ stack }: TokenParser<unknown>, levels: number): boolean {
  return stack.length > levels + 2;
}

/**
 * Whether YAML (or JSON) nests collections deeper than that many levels; stops reading where it does. Call it before
 * a text from outside is composed: composing recurses, and where it exhausts the stack while V8 compiles a
 * regular expression, the whole process dies (yaml 2.9, Node 20: "RegExpCompiler Allocation failed").
 * @param lexemes of the text, from yaml's Lexer
 */
export function nestsDeeperThan(
  parser: TokenParser<unknown>,
  lexemes: Iterable<string>,
  levels: number,
): boolean {
  for (const lexeme of lexemes) {
    for (const _ of parser.next(lexeme)) {
      // Only the number of open collections counts; the tokens are made only because the parser works that way.
    }
    if (isTooDeep(parser, levels)) return true;
  }
  return false;
}
