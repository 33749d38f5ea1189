const FIELD = '"managedFields":[';
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [BRACKET, CLOSING_BRACKET] = [0x5b, 0x5d];

/**
 * Empties `metadata.managedFields` in the JSON text of API objects. It is a large part of every object, and nobody here
 * reads it; parsed, its keys, of which many occur once in a cluster, leave a hidden class each (V8) that lives for
 * several collections: 4 MB for 10,000 Services. What stands in these lists is not looked at, so that it need not be JSON.
 */
export function withoutManagedFields(text: string): string {
  let result = "";
  let from = 0;
  for (let at = text.indexOf(FIELD); at !== -1; at = text.indexOf(FIELD, from)) {
    const start = at + FIELD.length;
    // With an escaped quote before it, it is the end of another name.
    const end = text.charCodeAt(at - 1) === BACKSLASH ? start : endOfList(text, start);
    result += text.slice(from, start);
    from = end;
  }
  return from === 0 ? text : result + text.slice(from);
}

/** Returns the offset of the bracket that closes the list whose items begin at `start`; the text's end if none does. */
function endOfList(text: string, start: number): number {
  let depth = 1;
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at + 1);
    else if (code === BRACKET) depth++;
    else if (code === CLOSING_BRACKET && --depth === 0) return at;
  }
  return text.length;
}

/** Returns the offset of the quote that ends the string whose text begins at `start`. */
function endOfString(text: string, start: number): number {
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at;
    if (code === BACKSLASH) at++;
  }
  return text.length;
}
