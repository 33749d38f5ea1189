const SECOND = 1_000_000_000n;
const MINUTE = 60n * SECOND;
const HOUR = 60n * MINUTE;
const MILLISECOND = 1_000_000n;
const MICROSECOND = 1_000n;

const UNITS: Readonly<Record<string, bigint>> = {
  h: HOUR,
  m: MINUTE,
  s: SECOND,
  ms: MILLISECOND,
  us: MICROSECOND,
  "\u00b5s": MICROSECOND,
  "\u03bcs": MICROSECOND,
  ns: 1n,
};

const PART = /(?:(\d+)(?:\.(\d*))?|\.(\d+))(h|ms|m|s|us|\u00b5s|\u03bcs|ns)/g;
const WHOLE = new RegExp(`^[+-]?(?:${PART.source})+$`);

/** Go stores a duration in 63 bits of nanoseconds: 292 years. Longer texts are not parsed. */
const LONGEST = 2n ** 63n;
const MOST_CHARACTERS = 200;

/**
 * Parses a duration in Go's format (`1h30m`, `250ms`, `-1.5s`, `0`), with nanosecond precision.
 * Source: https://pkg.go.dev/time#ParseDuration
 * @returns milliseconds; undefined if the text is malformed
 */
export function parseDuration(text: string): number | undefined {
  if (/^[+-]?0$/.test(text)) return 0;
  if (text.length > MOST_CHARACTERS || !WHOLE.test(text)) return undefined;
  let nanoseconds = 0n;
  for (const [, whole = "0", fraction = "", onlyFraction = fraction, name = ""] of text.matchAll(PART)) {
    const unit = UNITS[name] ?? 0n;
    nanoseconds +=
      BigInt(whole) * unit + (BigInt(`0${onlyFraction}`) * unit) / 10n ** BigInt(onlyFraction.length);
  }
  if (nanoseconds >= LONGEST) return undefined;
  return text.startsWith("-") && nanoseconds > 0n
    ? -toMilliseconds(nanoseconds)
    : toMilliseconds(nanoseconds);
}

/**
 * Formats milliseconds as Go prints a duration: `1h0m0s`, `1m30s`, `250ms`, `0s`. {@link parseDuration}
 * returns the same number, with nanosecond precision. Source: https://pkg.go.dev/time#Duration.String
 */
export function formatDuration(milliseconds: number): string {
  const sign = milliseconds < 0 ? "-" : "";
  const total = toNanoseconds(Math.abs(milliseconds));
  if (total === 0n) return "0s";
  if (total < MICROSECOND) return `${sign}${total}ns`;
  if (total < MILLISECOND) return `${sign}${decimal(total, MICROSECOND)}\u00b5s`;
  if (total < SECOND) return `${sign}${decimal(total, MILLISECOND)}ms`;
  const seconds = `${decimal(total % MINUTE, SECOND)}s`;
  if (total < MINUTE) return `${sign}${seconds}`;
  const minutes = `${(total % HOUR) / MINUTE}m${seconds}`;
  return total < HOUR ? `${sign}${minutes}` : `${sign}${total / HOUR}h${minutes}`;
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

/** Whole milliseconds stay exact beyond 2^53 nanoseconds (104 days). */
function toMilliseconds(nanoseconds: bigint): number {
  if (nanoseconds <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(nanoseconds) / 1e6;
  return Number(nanoseconds / MILLISECOND) + Number(nanoseconds % MILLISECOND) / 1e6;
}

function toNanoseconds(milliseconds: number): bigint {
  const whole = Math.trunc(milliseconds);
  return BigInt(whole) * MILLISECOND + BigInt(Math.round((milliseconds - whole) * 1e6));
}

function decimal(nanoseconds: bigint, unit: bigint): string {
  const fraction = String(unit + (nanoseconds % unit)).slice(1);
  return `${nanoseconds / unit}.${fraction}`.replace(/\.?0+$/, "");
}
