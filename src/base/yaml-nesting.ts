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
    if (isTooDeep(parser, levels)) throw new TooDeepError();
  }
  yield* parser.end();
}

/** The document itself and the current scalar are also on the stack. */
function isTooDeep({ stack }: TokenParser<unknown>, levels: number): boolean {
  return stack.length > levels + 2;
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
  for (const lexeme of lexemes) {
    // Only the number of open collections matters; the parser cannot work without making the tokens.
    for (const _ of parser.next(lexeme));
    if (isTooDeep(parser, levels)) return true;
  }
  return false;
}
