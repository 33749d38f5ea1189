import { type LogFn, type Logger as PinoLogger, pino } from "pino";
import type { Logger } from "../base/logger.ts";
import { escapeUnprintable, rounded } from "../base/text.ts";

/** A logger whose level can change while it is in use. */
export interface AdjustableLogger extends Logger {
  level: string;
}

/** The destination of the log: one call for each whole line. */
export interface LogStream {
  write(line: string): void;
}

/**
 * Creates the log: one JSON object for each line, or text for people. Lines are written immediately, so that
 * none is lost when the process is killed. Names and reasons from outside cannot control a terminal that
 * shows them. The JSON has the keys of Kubernetes components, and `level`: `ts` in milliseconds since 1970,
 * `v` for the verbosity (not for warnings and errors), `msg`, and `err` for the message of an error. Source:
 * {@link
 * https://github.com/kubernetes/enhancements/tree/master/keps/sig-instrumentation/1602-structured-logging
 * KEP-1602}
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

/**
 * Maximum length of a text in a line, unless it is for debugging, as a text may be a whole transaction.
 * Characters.
 */
const MAX_TEXT = 4000;

/** pino's number of this level. */
const DEBUG = 20;

function logBounded(this: PinoLogger, args: Parameters<LogFn>, method: LogFn, level: number): void {
  const [fields, message] = args as unknown as [Record<string, unknown>, string];
  const bounded = Object.entries(fields).map(([name, value]) => [name, boundedValue(value, level)]);
  method.call(this, Object.fromEntries(bounded), String(boundedValue(message, level)));
}

function boundedValue(value: unknown, level: number): unknown {
  if (typeof value === "number") return rounded(value);
  if (typeof value !== "string" || value.length <= MAX_TEXT || level <= DEBUG) return value;
  return `${value.slice(0, MAX_TEXT)}... (${value.length} characters)`;
}

/** Renames `error` to the key of Kubernetes components. */
function withErr({ error, ...fields }: Record<string, unknown>): Record<string, unknown> {
  return error === undefined ? fields : { err: error, ...fields };
}

/** The value of the flag `-v` from which lines of a level are logged. */
function verbosityOf(level: string): { readonly v?: number } {
  if (level === "info") return { v: 0 };
  return level === "debug" ? { v: 4 } : {};
}

/** Formats a line: `2026-11-20T10:00:00.000Z I full sync reason=start seconds=0.2`. */
function textLine(json: string): string {
  const { level, v: _, ts, msg, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${fieldText(value)}`);
  const letter = String(level).charAt(0).toUpperCase();
  return `${new Date(Number(ts)).toISOString()} ${letter} ${msg}${pairs.join("")}\n`;
}

function fieldText(value: unknown): string {
  return typeof value === "string" && /^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value);
}

/** Maximum length of a kept line, as a whole transaction may be logged for debugging. Characters. */
const MAX_LENGTH = 10_000;

/** Returns a copy, as a slice would keep the whole line in memory. */
function shortened(line: string): string {
  return line.length <= MAX_LENGTH ? line : `${Buffer.from(line.slice(0, MAX_LENGTH)).toString()}...\n`;
}

/**
 * Keeps the newest lines of a log, for support, and passes all of them to its stream.
 * @param most maximum number of kept lines
 */
export function rememberingLog(stream: LogStream, most = 1000) {
  const kept: string[] = [];
  return {
    write(line: string): void {
      stream.write(line);
      kept.push(shortened(line));
      if (kept.length > 2 * most) kept.splice(0, kept.length - most);
    },
    /** Returns the newest lines, oldest first. */
    lines: (): readonly string[] => kept.slice(-most),
  };
}
