import { type Level, type LogFn, type Logger as PinoLogger, pino } from "pino";
import type { Logger } from "../base/logger.ts";
import { escapeUnprintable, rounded } from "../base/text.ts";

/** A logger whose level can change while it is in use. */
export interface AdjustableLogger extends Logger {
  level: string;
}

/** The destination of log lines: whole lines, one call each. */
export interface LogStream {
  write(line: string): void;
}

/**
 * Creates the product's log: JSON, one object a line, or text for people. Written at once, so that nothing is lost when
 * the process is killed; names and reasons from outside cannot control a terminal that shows it. The JSON has the keys of Kubernetes components: `ts` in milliseconds since 1970, `v` for the
 * verbosity (none for warnings and errors), `msg`, `err` for an error's message; `level` beside them.
 * Source: {@link https://github.com/kubernetes/enhancements/tree/master/keps/sig-instrumentation/1602-structured-logging KEP-1602}
 */
export function createLogger(
  format: "text" | "json",
  level: "info" | "debug",
  stream: LogStream,
): AdjustableLogger {
  const options = {
    level,
    base: null,
    timestamp: () => `,"ts":${Date.now()}`,
    formatters: { level: (label: string) => ({ level: label, ...verbosityOf(label) }), log: withErr },
    hooks: { logMethod: logBounded },
  };
  // Every line ends with a line feed.
  const write = (line: string) => stream.write(`${escapeUnprintable(line.slice(0, -1))}\n`);
  return pino(options, { write: format === "json" ? write : (line: string) => write(textLine(line)) });
}

/** Of a longer text in a line only this many characters are logged, unless it is for debugging: a whole transaction may be. */
const MAX_TEXT = 4000;

/** The number of the level in pino. */
const DEBUG = 20;

function logBounded(this: PinoLogger, args: Parameters<LogFn>, method: LogFn, level: number): void {
  const [fields, message] = args as unknown as [Record<string, unknown>, string];
  const bound = level <= DEBUG ? (value: unknown) => value : boundedText;
  const bounded = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === "number" ? rounded(value) : bound(value),
    ]),
  );
  method.call(this, bounded, String(bound(message)));
}

function boundedText(value: unknown): unknown {
  if (typeof value !== "string" || value.length <= MAX_TEXT) return value;
  return `${value.slice(0, MAX_TEXT)}... (${value.length} characters)`;
}

/** Renames `error` to the key that Kubernetes components have. */
function withErr({ error, ...fields }: Record<string, unknown>): Record<string, unknown> {
  return error === undefined ? fields : { err: error, ...fields };
}

/** The flag `-v` at which lines of a level are logged. */
function verbosityOf(level: string): { readonly v?: number } {
  if (level === "info") return { v: 0 };
  return level === "debug" ? { v: 4 } : {};
}

const SHORT_LEVELS: Readonly<Record<string, string>> = {
  debug: "D",
  info: "I",
  warn: "W",
  error: "E",
} satisfies Partial<Record<Level, string>>;

/** `2026-11-20T10:00:00.000Z I full sync reason=start seconds=0.2`. */
function textLine(json: string): string {
  const { level, v: _, ts, msg, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${fieldText(value)}`);
  return `${new Date(Number(ts)).toISOString()} ${SHORT_LEVELS[String(level)] ?? level} ${msg}${pairs.join("")}\n`;
}

function fieldText(value: unknown): string {
  return typeof value === "string" && /^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value);
}

/** Of a longer line only this many characters are kept: a whole transaction may be logged for debugging. */
const MAX_LENGTH = 10_000;

/** A copy: a slice would keep the whole line in memory. */
function shortened(line: string): string {
  return line.length <= MAX_LENGTH ? line : `${Buffer.from(line.slice(0, MAX_LENGTH)).toString()}...\n`;
}

/** The newest lines of a log, for support: they pass through to the log's own stream. */
export class RecentLog implements LogStream {
  readonly #stream: LogStream;
  readonly #most: number;
  readonly #lines: string[] = [];

  /** @param most lines that are kept, at most */
  constructor(stream: LogStream, most = 1000) {
    this.#stream = stream;
    this.#most = most;
  }

  write(line: string): void {
    this.#stream.write(line);
    this.#lines.push(shortened(line));
    if (this.#lines.length > 2 * this.#most) this.#lines.splice(0, this.#lines.length - this.#most);
  }

  /** The newest lines, the oldest of them first. */
  lines(): readonly string[] {
    return this.#lines.slice(-this.#most);
  }
}
