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
  return texts.join(", ").replace(/, ([^,]*)$/, " or $1");
}

/** Formats what belongs together: `dump, diff and check`. */
export function listed(texts: readonly string[]): string {
  return texts.join(", ").replace(/, ([^,]*)$/, " and $1");
}

/** The most names that {@link someOf} gives. */
const MOST_NAMES = 5;

/** Formats the first of many names: `a, b, c, d, e and 7 others`. */
export function someOf(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return more > 1 ? listed([...names.slice(0, MOST_NAMES), `${more} others`]) : listed(names);
}

/** A number with its noun: `1 endpoint`, `2 endpoints`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

declare const brand: unique symbol;

/** Text of one kind that must not be mixed up with other text. */
export type Branded<Kind extends string> = string & { readonly [brand]: Kind };
