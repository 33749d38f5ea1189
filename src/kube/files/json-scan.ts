const TOKEN =
  /[ \t\r\n]*(?:([{}[\],:])|("[^"\\\p{Cc}]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\p{Cc}]*)*")|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/uy;
const BLANKS = /[ \t\r\n]*/y;

/** The end of the first value of a JSON text, or the offset of the first error. */
export type JsonScan =
  | { readonly kind: "value"; readonly end: number }
  | { readonly kind: "error"; readonly offset: number };

type Expected = "value" | "value or ]" | "key" | "key or }" | ":" | ", or end";

/**
 * Finds the end of the first value, or the offset of its first error. JSON.parse reports the offset of some errors only
 * (V8 11: `Unexpected token '}', ..."a": }" is not valid JSON`).
 */
export function scanJson(text: string, start: number): JsonScan {
  const open: string[] = [];
  let expected: Expected = "value";
  let at = start;
  do {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    const next: Expected | undefined =
      match === null ? undefined : after(expected, match[1] ?? (match[2] === undefined ? "value" : "text"), open);
    if (next === undefined) {
      BLANKS.lastIndex = at;
      BLANKS.exec(text);
      return { kind: "error", offset: BLANKS.lastIndex };
    }
    expected = next;
    at = TOKEN.lastIndex;
  } while (open.length > 0);
  return { kind: "value", end: at };
}

/** Returns what may follow a token; undefined if the token itself is not allowed. Updates `open`, the open brackets. */
function after(expected: Expected, token: string, open: string[]): Expected | undefined {
  const isValueDue = expected === "value" || expected === "value or ]";
  switch (token) {
    case "{":
    case "[":
      if (!isValueDue) return undefined;
      open.push(token);
      return token === "{" ? "key or }" : "value or ]";
    case "}":
    case "]": {
      const isDue = expected === ", or end" || expected === (token === "}" ? "key or }" : "value or ]");
      return isDue && open.pop() === (token === "}" ? "{" : "[") ? ", or end" : undefined;
    }
    case ",":
      if (expected !== ", or end") return undefined;
      return open.at(-1) === "{" ? "key" : "value";
    case ":":
      return expected === ":" ? "value" : undefined;
    case "text":
      if (expected === "key" || expected === "key or }") return ":";
      return isValueDue ? ", or end" : undefined;
    default:
      return isValueDue ? ", or end" : undefined;
  }
}
