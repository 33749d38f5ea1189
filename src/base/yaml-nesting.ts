/** Collections are nested too deeply. */
export class TooDeepError extends Error {}

/** The part of yaml's Parser that we use. Its stack holds the open collections. */
export interface TokenParser<Token> {
  readonly stack: readonly unknown[];
  next(lexeme: string): Iterable<Token>;
  end(): Iterable<Token>;
}

/**
 * Yields the tokens of a YAML (or JSON) text for the composer, as Parser.parse does.
 * @param lexemes lexemes of the text, from yaml's Lexer
 * @throws TooDeepError instead of yielding a document that nests collections too deeply; see {@link
 * nestsDeeperThan}
 */
export function* shallowTokens<Token>(
  parser: TokenParser<Token>,
  lexemes: Iterable<string>,
  levels: number,
): Generator<Token> {
  for (const lexeme of lexemes) {
    yield* parser.next(lexeme);
    // The document itself and the current scalar are also on the stack.
    if (parser.stack.length > levels + 2) throw new TooDeepError();
  }
  yield* parser.end();
}

/**
 * Whether YAML (or JSON) nests collections deeper than a number of levels; stops reading there. Check text
 * from outside before composing it: composing recurses, and if it exhausts the stack while V8 compiles a
 * regular expression, the process dies (yaml 2.9, Node 20: "RegExpCompiler Allocation failed").
 * @param lexemes lexemes of the text, from yaml's Lexer
 */
export function nestsDeeperThan(
  parser: TokenParser<unknown>,
  lexemes: Iterable<string>,
  levels: number,
): boolean {
  try {
    // Only the number of open collections matters; the parser cannot work without making the tokens.
    for (const _ of shallowTokens(parser, lexemes, levels));
    return false;
  } catch (error) {
    if (error instanceof TooDeepError) return true;
    throw error;
  }
}
