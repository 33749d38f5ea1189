const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:]/g;

/** A key that an object has twice, and the offset of the second one. */
export interface DuplicateKey {
  readonly key: string;
  readonly offset: number;
}

/**
 * Finds the first key that an object of a JSON text has twice. JSON.parse uses the last one, where the API server and
 * kubectl reject the object, as YAML is here.
 * @param text valid JSON from `start` to `end`
 */
export function duplicateKey(text: string, start: number, end: number): DuplicateKey | undefined {
  /** The keys so far of each open object; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  let last = { text: "", offset: 0 };
  TOKEN.lastIndex = start;
  for (let match = TOKEN.exec(text); match !== null && match.index < end; match = TOKEN.exec(text)) {
    const [token] = match;
    if (token === "{" || token === "[") open.push(token === "{" ? new Set() : undefined);
    else if (token === "}" || token === "]") open.pop();
    else if (token !== ":") last = { text: token, offset: match.index };
    else {
      const key = JSON.parse(last.text) as string;
      const keys = open.at(-1);
      if (keys?.has(key)) return { key, offset: last.offset };
      keys?.add(key);
    }
  }
  return undefined;
}
