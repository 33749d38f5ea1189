/** A host as it stands before a port and in a URL: an IPv6 address in brackets, everything else as it is. */
function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** An address and a port: `10.0.0.1:80`, `[fd00::1]:80`. */
export function socketText(address: string, port: number | string): string {
  return `${bracketed(address)}:${port}`;
}

/** Formats a choice: `TCP, UDP or SCTP`. */
export function alternatives(texts: readonly string[]): string {
  return joined(texts, "or");
}

/** The most that {@link listText} gives unless it is told otherwise. */
const MOST_LISTED = 5;

/** Formats what belongs together: `a, b and c`; of more than `most`, the first and how many others: `a, b and 7 more`. */
export function listText(texts: readonly string[], most = MOST_LISTED): string {
  return listTextOf(texts, (text) => text, most);
}

/** As {@link listText}, and makes no more texts than it gives. */
export function listTextOf<T>(items: readonly T[], textOf: (item: T) => string, most = MOST_LISTED): string {
  const texts = items.slice(0, most).map(textOf);
  return joined(items.length > most ? [...texts, `${items.length - most} more`] : texts, "and");
}

function joined(texts: readonly string[], word: "and" | "or"): string {
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} ${word} ${texts.at(-1)}`;
}

/** A number with its noun: `1 endpoint`, `2 endpoints`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Rounds a figure for people: three significant digits, and never less than the whole number: `0.157`, `12.3`, `1234`. */
export function rounded(figure: number): number {
  return Math.abs(figure) >= 100 ? Math.round(figure) : Number(figure.toPrecision(3));
}

/** Control characters (C0, DEL, C1), line separators, and what turns the direction of text around. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Writes characters that would move a terminal's cursor, or change how the rest of a line is shown, as JSON escapes
 * them: `\u009b`. So JSON stays the same JSON.
 */
export function escapeUnprintable(text: string): string {
  return text.replace(UNPRINTABLE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Characters of a value that {@link quoted} shows. */
const SHOWN = 80;

/** Formats a value for a message: a scalar as JSON, at most 80 characters of it, safe for a terminal; "an array" or "an object". */
export function quoted(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value !== "string") return String(value);
  const text = escapeUnprintable(JSON.stringify(value.slice(0, SHOWN)));
  return value.length > SHOWN ? `${text}...` : text;
}

/** The value of a text in JSON; undefined where it is none. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

declare const brand: unique symbol;

/** Text of one kind that must not be mixed up with other text. */
export type Branded<Kind extends string> = string & { readonly [brand]: Kind };
