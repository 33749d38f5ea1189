/** The part of yaml's Parser that we use. Its stack holds the open collections. */
interface TokenParser<Token> {
  readonly stack: readonly unknown[];
  next(lexeme: string): Iterable<Token>;
  end(): Iterable<Token>;
}

/**
 * Yields the tokens of a YAML (or JSON) text for the composer, as Parser.parse does. Throws if it nests
 * collections deeper than a number of levels. Check text from outside before composing it: composing
 * recurses, and if it exhausts the stack while V8 compiles a regular expression, the process dies (yaml 2.9,
 * Node 20: "RegExpCompiler Allocation failed").
 * @param lexemes lexemes of the text, from yaml's Lexer
 * @param tooDeep makes the error, with the reason
 */
export function* shallowTokens<Token>(
  parser: TokenParser<Token>,
  lexemes: Iterable<string>,
  levels: number,
  tooDeep: (reason: string) => Error,
): Generator<Token> {
  for (const lexeme of lexemes) {
    yield* parser.next(lexeme);
    // The document itself and the current scalar are also on the stack.
    if (parser.stack.length > levels + 2) throw tooDeep(`nests deeper than ${levels} levels`);
  }
  yield* parser.end();
}
