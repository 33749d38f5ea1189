/** Formats a host for a URL or before a port: an IPv6 address gets brackets. */
function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** Formats an address and a port: `10.0.0.1:80`, `[fd00::1]:80`. */
export function socketText(address: string, port: number | string): string {
  return `${bracketed(address)}:${port}`;
}

/** Formats a choice: `TCP, UDP or SCTP`. */
export function alternatives(texts: readonly string[]): string {
  return joined(texts, "or");
}

/** Default maximum of {@link listText}. */
const MOST_LISTED = 5;

/**
 * Formats a list: `a, b and c`; beyond `most` items, the first ones and the number of the others: `a, b and 7
 * more`.
 */
export function listText(texts: readonly string[], most = MOST_LISTED): string {
  return listTextOf(texts, (text) => text, most);
}

/** As {@link listText}, but only formats the items that are shown. */
export function listTextOf<T>(items: readonly T[], textOf: (item: T) => string, most = MOST_LISTED): string {
  const texts = items.slice(0, most).map(textOf);
  return joined(items.length > most ? [...texts, `${items.length - most} more`] : texts, "and");
}

/** A last line that counts the items that are not listed, if any. */
export function moreLines(count: number): string[] {
  return count > 0 ? [`and ${count} more`] : [];
}

/** The first of some names, with the number of others: `a, b and 3 more`. */
export function firstNames(names: readonly string[], most: number): string {
  return [names.slice(0, most).join(", "), ...moreLines(names.length - most)].join(" ");
}

function joined(texts: readonly string[], word: "and" | "or"): string {
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} ${word} ${texts.at(-1)}`;
}

/** Formats a number with its noun: `1 endpoint`, `2 endpoints`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Rounds a number for display to three significant digits, but never beyond the integer part: `0.157`,
 * `12.3`, `1234`.
 */
export function rounded(figure: number): number {
  return Math.abs(figure) >= 100 ? Math.round(figure) : Number(figure.toPrecision(3));
}

/** Control characters (C0, DEL, C1), line separators, and characters that change the text direction. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Escapes characters that move a terminal's cursor or change the display of the rest of a line, as JSON does:
 * `\u009b`. So JSON text stays equivalent.
 */
export function escapeUnprintable(text: string): string {
  return text.replace(UNPRINTABLE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Maximum number of characters that {@link quoted} shows. */
const SHOWN = 80;

/**
 * Formats a value for a message: a scalar as JSON, cut to 80 characters and safe for a terminal; otherwise
 * "an array" or "an object".
 */
export function quoted(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value !== "string") return String(value);
  const text = escapeUnprintable(JSON.stringify(value.slice(0, SHOWN)));
  return value.length > SHOWN ? `${text}...` : text;
}

/** Parses JSON; undefined if it is malformed. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The first line of a message of another program or library, without a colon that introduces the next. */
export function firstLine(message: string): string {
  return (message.trim().split("\n", 1)[0] ?? "").replace(/:$/, "");
}

/** Whether a value is an object with names, and not an array. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

declare const brand: unique symbol;

/** A text type that cannot be assigned to other text types. */
export type Branded<Kind extends string> = string & { readonly [brand]: Kind };

/** A share from 0 to 1 in percent, to a tenth: `33.3 %`. */
export function percentText(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}
