const UNIT_MS: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1_000,
  ms: 1,
  us: 1e-3,
  "\u00b5s": 1e-3,
  "\u03bcs": 1e-3,
  ns: 1e-6,
};

const PART = /(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|\u00b5s|\u03bcs|ns)/g;
const WHOLE = new RegExp(`^[+-]?(?:${PART.source})+$`);

/** Go keeps a duration in 63 bits of nanoseconds: 292 years. */
const MAX_MS = 2 ** 63 / 1e6;

/**
 * Reads a duration as Go writes it (`1h30m`, `250ms`, `-1.5s`, `0`), rounded to nanoseconds.
 *
 * @returns milliseconds, or undefined if it is none. Source: Go's time.ParseDuration.
 */
export function parseDuration(text: string): number | undefined {
  if (text === "0" || text === "+0" || text === "-0") return 0;
  if (!WHOLE.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(PART)) total += Number(amount) * (UNIT_MS[unit ?? ""] ?? Number.NaN);
  if (total >= MAX_MS) return undefined;
  // Sums of parts such as 0.1 + 0.2 leave dust below a nanosecond.
  const milliseconds = Math.round(total * 1e6) / 1e6;
  return text.startsWith("-") && milliseconds !== 0 ? -milliseconds : milliseconds;
}

/**
 * Writes milliseconds as Go prints a duration: `1h0m0s`, `1m30s`, `250ms`, `0s`. What it writes is read back as the
 * same number. Source: Go's Duration.String.
 */
export function formatDuration(milliseconds: number): string {
  const sign = milliseconds < 0 ? "-" : "";
  const rest = Math.abs(milliseconds);
  if (rest === 0) return "0s";
  if (rest < 1e-3) return `${sign}${trim(rest * 1e6)}ns`;
  if (rest < 1) return `${sign}${trim(rest * 1e3)}\u00b5s`;
  if (rest < 1_000) return `${sign}${trim(rest)}ms`;
  const hours = Math.floor(rest / 3_600_000);
  const minutes = Math.floor((rest % 3_600_000) / 60_000);
  const seconds = `${trim((rest % 60_000) / 1_000)}s`;
  if (hours > 0) return `${sign}${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${sign}${minutes}m${seconds}` : `${sign}${seconds}`;
}

function trim(value: number): string {
  return value.toFixed(9).replace(/\.?0+$/, "");
}
