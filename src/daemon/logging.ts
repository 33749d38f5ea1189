import { type Level, pino } from "pino";
import type { Logger } from "../base/logger.ts";

/** A logger whose level can change while it is in use. */
export interface AdjustableLogger extends Logger {
  level: string;
}

/** The destination of log lines: whole lines, one call each. */
export interface LogStream {
  write(line: string): void;
}

/**
 * The product's log: JSON, one object a line, or text for people. Written at once, so that nothing is lost when the
 * process is killed.
 */
export function createLogger(format: "text" | "json", level: "info" | "debug", stream: LogStream): AdjustableLogger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return pino(options, format === "json" ? stream : { write: (line: string) => stream.write(textLine(line)) });
}

const SHORT_LEVELS: Readonly<Record<string, string>> = {
  debug: "D",
  info: "I",
  warn: "W",
  error: "E",
} satisfies Partial<Record<Level, string>>;

/** `2026-11-20T10:00:00.000Z I full sync reason=start seconds=0.2`. */
function textLine(json: string): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${fieldText(value)}`);
  return `${time} ${SHORT_LEVELS[String(level)] ?? level} ${msg}${pairs.join("")}\n`;
}

function fieldText(value: unknown): string {
  return typeof value === "string" && /^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value);
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
    this.#lines.push(line);
    if (this.#lines.length > 2 * this.#most) this.#lines.splice(0, this.#lines.length - this.#most);
  }

  /** The newest lines, the oldest of them first. */
  lines(): readonly string[] {
    return this.#lines.slice(-this.#most);
  }
}
