const ZERO = 48;
const NINE = 57;
const LOWER_A = 97;
const LOWER_F = 102;
const COLON = 58;

/** The last 32 bits of an address may be written as an IPv4 address (RFC 4291 section 2.2). */
const DOTTED_TAIL = /^(.*:)(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/;

/** Value of a hexadecimal digit by its character code; -1 for other characters. */
function hexDigit(code: number): number {
  if (code >= ZERO && code <= NINE) return code - ZERO;
  const lower = code | 0x20;
  return lower >= LOWER_A && lower <= LOWER_F ? lower - LOWER_A + 10 : -1;
}

/** Rewrites `::1.2.3.4` as `::102:304`; undefined if the dotted part is not an IPv4 address. */
function withoutDots(text: string): string | undefined {
  const match = DOTTED_TAIL.exec(text);
  if (match === null) return undefined;
  const bytes = match.slice(2).map(Number);
  const padded = match.slice(2).some((part) => part.length > 1 && part.startsWith("0"));
  if (padded || bytes.some((byte) => byte > 255)) return undefined;
  const [a = 0, b = 0, c = 0, d = 0] = bytes;
  return `${match[1]}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

/** Inserts the zeros of `::` at `gap`; undefined if the result does not have eight groups. */
function fillGap(groups: number[], gap: number): number[] | undefined {
  if (gap < 0) return groups.length === 8 ? groups : undefined;
  if (groups.length > 7) return undefined;
  const zeros = new Array<number>(8 - groups.length).fill(0);
  return [...groups.slice(0, gap), ...zeros, ...groups.slice(gap)];
}

/**
 * Parses an IPv6 address into eight 16-bit groups; undefined if `text` is not one. Accepts the same texts as
 * inet_pton(3), so neither a zone (`%eth0`) nor a prefix length.
 *
 * One pass over character codes, because this runs for every endpoint address of a cluster.
 */
export function parseIPv6(text: string): number[] | undefined {
  if (text.includes(".")) {
    const plain = withoutDots(text);
    return plain === undefined ? undefined : parseIPv6(plain);
  }
  const groups: number[] = [];
  let gap = -1;
  let at = 0;
  if (text.startsWith("::")) {
    gap = 0;
    at = 2;
  }
  while (at < text.length) {
    let value = 0;
    const start = at;
    for (let digit = hexDigit(text.charCodeAt(at)); digit >= 0; digit = hexDigit(text.charCodeAt(at))) {
      value = value * 16 + digit;
      at += 1;
    }
    if (at === start || at - start > 4 || groups.length === 8) return undefined;
    groups.push(value);
    if (at === text.length) break;
    if (text.charCodeAt(at) !== COLON) return undefined;
    at += 1;
    if (text.charCodeAt(at) === COLON && gap < 0) {
      gap = groups.length;
      at += 1;
    } else if (at === text.length) return undefined;
  }
  return fillGap(groups, gap);
}

/** Finds the first longest run of at least two zero groups (RFC 5952 section 4.2). */
function longestZeros(groups: readonly number[]): { start: number; length: number } {
  let best = { start: -1, length: 1 };
  for (let start = 0; start < groups.length; start += 1) {
    let length = 0;
    while (groups[start + length] === 0) length += 1;
    if (length > best.length) best = { start, length };
    start += length;
  }
  return best;
}

/**
 * Formats eight groups as nft prints them, which is inet_ntop(3) of glibc: RFC 5952, and with dots if exactly
 * the first 96 bits are zero (`::0.1.0.2`).
 */
export function formatIPv6(groups: readonly number[]): string {
  const zeros = longestZeros(groups);
  if (zeros.start < 0) return hex(groups);
  if (zeros.start === 0 && zeros.length === 6) {
    const [high = 0, low = 0] = groups.slice(6);
    return `::${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
  }
  return `${hex(groups.slice(0, zeros.start))}::${hex(groups.slice(zeros.start + zeros.length))}`;
}

function hex(groups: readonly number[]): string {
  return groups.map((group) => group.toString(16)).join(":");
}
