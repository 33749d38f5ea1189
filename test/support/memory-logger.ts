import type { LogFields, Logger } from "../../src/base/logger.ts";

/** A logged line. */
export interface LoggedLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly fields: LogFields;
  readonly message: string;
}

/** A logger that stores its lines. */
export type MemoryLogger = Logger & { readonly lines: LoggedLine[] };

/** Returns a new logger that stores its lines. */
export function memoryLogger(): MemoryLogger {
  const lines: LoggedLine[] = [];
  const at = (level: LoggedLine["level"]) => (fields: LogFields, message: string) => {
    lines.push({ level, fields, message });
  };
  const isLevelEnabled = () => true;
  return {
    lines,
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    isLevelEnabled,
  };
}
