import { Lexer, Parser } from "yaml";

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
    // The document itself is on the stack, too, and the scalar that is being read.
    if (parser.stack.length > levels + 2) return true;
  }
  return false;
}
