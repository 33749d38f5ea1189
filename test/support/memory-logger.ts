import type { LogFields, Logger } from "../../src/base/logger.ts";

/** One line that was logged. */
export interface LoggedLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly fields: LogFields;
  readonly message: string;
}

/** A logger that keeps its lines. */
export type MemoryLogger = Logger & { readonly lines: LoggedLine[] };

/** Makes one. */
export function memoryLogger(): MemoryLogger {
  const lines: LoggedLine[] = [];
  const at = (level: LoggedLine["level"]) => (fields: LogFields, message: string) => {
    lines.push({ level, fields, message });
  };
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
