/** Milliseconds of each unit. */
const UNITS: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  us: 1e-3,
  "\u00b5s": 1e-3,
  "\u03bcs": 1e-3,
  ns: 1e-6,
};

const PART = /(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|\u00b5s|\u03bcs|ns)/g;
const WHOLE = new RegExp(`^[+-]?(?:${PART.source})+$`);

/** Go stores a duration in 63 bits of nanoseconds: 292 years. Longer texts are not parsed. */
const LONGEST = 2 ** 63 / 1e6;
const MOST_CHARACTERS = 200;

/**
 * Parses a duration in Go's format (`1h30m`, `250ms`, `-1.5s`, `0`), with nanosecond precision.
 * Source: https://pkg.go.dev/time#ParseDuration
 * @returns milliseconds; undefined if the text is malformed
 */
export function parseDuration(text: string): number | undefined {
  if (/^[+-]?0$/.test(text)) return 0;
  if (text.length > MOST_CHARACTERS || !WHOLE.test(text)) return undefined;
  let sum = 0;
  for (const [, count, unit = ""] of text.matchAll(PART)) sum += Number(count) * (UNITS[unit] ?? 0);
  if (sum > LONGEST) return undefined;
  const milliseconds = roundedToNanosecond(sum);
  return text.startsWith("-") && milliseconds > 0 ? -milliseconds : milliseconds;
}

/**
 * Formats milliseconds as Go prints a duration: `1h0m0s`, `1m30s`, `250ms`, `0s`. {@link parseDuration}
 * returns the same number, with nanosecond precision. Source: https://pkg.go.dev/time#Duration.String
 */
export function formatDuration(milliseconds: number): string {
  const sign = milliseconds < 0 ? "-" : "";
  const total = roundedToNanosecond(Math.abs(milliseconds));
  if (total === 0) return "0s";
  if (total < 1e-3) return `${sign}${Math.round(total * 1e6)}ns`;
  if (total < 1) return `${sign}${decimal(total * 1000, 3)}\u00b5s`;
  if (total < 1000) return `${sign}${decimal(total, 6)}ms`;
  const seconds = `${decimal((total % 60_000) / 1000, 9)}s`;
  if (total < 60_000) return `${sign}${seconds}`;
  const minutes = `${Math.floor(total / 60_000) % 60}m${seconds}`;
  return total < 3_600_000 ? `${sign}${minutes}` : `${sign}${Math.floor(total / 3_600_000)}h${minutes}`;
}

/**
 * Rounds milliseconds to nanoseconds, or to microseconds beyond 2^53 nanoseconds (104 days). Whole ones stay
 * exact.
 */
function roundedToNanosecond(milliseconds: number): number {
  const parts = milliseconds * 1e6 < 2 ** 53 ? 1e6 : 1e3;
  return Math.round(milliseconds * parts) / parts;
}

function decimal(number: number, digits: number): string {
  return number.toFixed(digits).replace(/\.?0+$/, "");
}

/** Units of {@link durationText} in seconds, largest first. */
const PRINTED_UNITS: readonly (readonly [name: string, seconds: number])[] = [
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/**
 * Formats seconds as nft prints timeouts and kubectl prints ages, without units of value 0: `1d2h3m4s`.
 * @param seconds rounded down; negative values count as 0
 * @param units maximum number of units, starting with the largest; smaller ones are omitted
 */
export function durationText(seconds: number, units: number = PRINTED_UNITS.length): string {
  let rest = Math.max(Math.floor(seconds), 0);
  const first = PRINTED_UNITS.findIndex(([, size]) => rest >= size);
  if (first === -1) return "0s";
  const texts = PRINTED_UNITS.slice(first, first + units).map(([name, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count === 0 ? "" : `${count}${name}`;
  });
  return texts.join("");
}

/** Formats seconds as kubectl prints ages, in their two largest units: `45s`, `5m12s`, `2h5m`, `3d`. */
export function ageText(seconds: number): string {
  return durationText(seconds, 2);
}

/** Formats milliseconds in one unit, for sentences: `12 s`, `3 min`, `5 h`, `2 d`. */
export function durationWords(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

/** Whole seconds from one time to another, both in milliseconds; 0 if the clock was set back in between. */
export function secondsBetween(from: number, to: number): number {
  return Math.max(0, Math.round((to - from) / 1000));
}
