import type { Family } from "./family.ts";
import { formatIPv6, parseIPv6 } from "./ipv6.ts";

/** The addresses from `first` to `last`, inclusive, as numbers of 32 or 128 bits. */
export interface AddressInterval {
  readonly first: bigint;
  readonly last: bigint;
}

/** Number of bits of an address. */
export function addressWidth(family: Family): number {
  return family === "ip" ? 32 : 128;
}

/** Converts a valid address to a number. */
export function addressNumber(family: Family, address: string): bigint {
  if (family === "ip") {
    let number = 0;
    for (const byte of address.split(".")) number = number * 256 + Number(byte);
    return BigInt(number);
  }
  return (parseIPv6(address) ?? []).reduce((number, group) => (number << 16n) | BigInt(group), 0n);
}

/** Formats an address as nft prints it. */
export function addressText(family: Family, number: bigint): string {
  if (family === "ip") {
    const bits = Number(number);
    return `${bits >>> 24}.${(bits >>> 16) & 255}.${(bits >>> 8) & 255}.${bits & 255}`;
  }
  const shifts = [112n, 96n, 80n, 64n, 48n, 32n, 16n, 0n];
  return formatIPv6(shifts.map((shift) => Number((number >> shift) & 0xffffn)));
}

/** Returns the interval of the addresses whose first `length` bits are those of `address`. */
export function prefixInterval(family: Family, address: bigint, length: number): AddressInterval {
  const hostBits = BigInt(addressWidth(family) - length);
  const first = (address >> hostBits) << hostBits;
  return { first, last: first + (1n << hostBits) - 1n };
}

/** Returns the length of the prefix that covers exactly this interval; undefined if there is none. */
function prefixLength(family: Family, { first, last }: AddressInterval): number | undefined {
  if (first === last) return addressWidth(family);
  const size = last - first + 1n;
  const isPrefix = (size & (size - 1n)) === 0n && first % size === 0n;
  return isPrefix ? addressWidth(family) - size.toString(2).length + 1 : undefined;
}

/** Formats an interval as nft prints it: `10.0.0.1`, `10.0.0.0/8` or `10.0.0.1-10.0.0.9`. */
export function intervalText(family: Family, interval: AddressInterval): string {
  const first = addressText(family, interval.first);
  const length = prefixLength(family, interval);
  if (length === undefined) return `${first}-${addressText(family, interval.last)}`;
  return length === addressWidth(family) ? first : `${first}/${length}`;
}

/** Parses the text of {@link intervalText}. */
export function parseInterval(family: Family, text: string): AddressInterval {
  const [first = "", last] = text.split("-");
  if (last !== undefined) return { first: addressNumber(family, first), last: addressNumber(family, last) };
  const [address = "", length] = text.split("/");
  return prefixInterval(family, addressNumber(family, address), Number(length ?? addressWidth(family)));
}

/**
 * Merges intervals that overlap or touch. Returns the same addresses in as few intervals as possible,
 * ascending.
 */
export function joinIntervals(intervals: readonly AddressInterval[]): AddressInterval[] {
  const sorted = [...intervals].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  const joined: AddressInterval[] = [];
  for (const next of sorted) {
    const last = joined.at(-1);
    if (last === undefined || next.first > last.last + 1n) joined.push(next);
    else if (next.last > last.last) joined[joined.length - 1] = { first: last.first, last: next.last };
  }
  return joined;
}

/** The addresses whose first `length` bits are those of `first`. */
export interface Prefix {
  readonly first: bigint;
  readonly length: number;
}

/**
 * Divides an interval into as few prefixes of some lengths as possible, ascending.
 * @param width number of bits of an address
 * @param lengths ascending; the last one is the width
 */
export function prefixesOf(
  width: number,
  lengths: readonly number[],
  { first, last }: AddressInterval,
): Prefix[] {
  const prefixes: Prefix[] = [];
  for (let next = first; next <= last; ) {
    const sizeOf = (length: number) => 1n << BigInt(width - length);
    const fits = (length: number) => next % sizeOf(length) === 0n && next + sizeOf(length) - 1n <= last;
    const length = lengths.find(fits) ?? width;
    prefixes.push({ first: next, length });
    next += sizeOf(length);
  }
  return prefixes;
}
