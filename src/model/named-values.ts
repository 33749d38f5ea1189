import { didYouMean, withHint } from "../base/nearest.ts";
import { quoted } from "../base/text.ts";

/** The valid values of a name: numbers from `least` to `most`. */
export interface ValueRange {
  /** Parses the number in a text; undefined if it is invalid. */
  readonly read: (text: string) => number | undefined;
  readonly least: number;
  readonly most: number;
  /** Both limits, as they are written: `1s to 1h`. */
  readonly limits: string;
}

/** Maximum length of a word for which a similar name is searched. Characters. */
const MOST_OF_WORD = 40;

/**
 * Parses a list such as `tcp-established=2h,udp-stream=5m`, in which each name may occur once.
 * @param rule what the text must be, as the predicate of a sentence
 * @param ranges the names and their valid values
 * @returns the values in the order of `ranges`, or the reason why they are invalid: the predicate of a
 * sentence
 */
export function parseNamedValues<Name extends string>(
  text: string,
  rule: string,
  ranges: Readonly<Record<Name, ValueRange>>,
): { readonly values: Readonly<Partial<Record<Name, number>>> } | { readonly reason: string } {
  const names = Object.keys(ranges) as Name[];
  const found = new Map<Name, number>();
  for (const entry of text.split(",", names.length + 1)) {
    const [word = "", ...rest] = entry.split("=").map((part) => part.trim());
    // A second "=" is part of the value, which is invalid then.
    const value = rest.join("=");
    const name = names.find((one) => one === word);
    if (name === undefined) {
      const hint = didYouMean(word.slice(0, MOST_OF_WORD), names);
      return { reason: withHint(`${rule}, not ${quoted(entry.trim())}`, hint) };
    }
    if (found.has(name)) return { reason: `must not have ${name} twice` };
    const { read, least, most, limits } = ranges[name];
    const number = read(value);
    if (number === undefined || number < least || number > most)
      return { reason: `must have a value of ${limits} for ${name}, not ${quoted(value)}` };
    found.set(name, number);
  }
  const given = names.filter((name) => found.has(name)).map((name) => [name, found.get(name)]);
  return { values: Object.fromEntries(given) };
}

/** Reads a whole number of at most six digits; undefined for any other text. */
export function wholeNumber(text: string): number | undefined {
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined;
}
