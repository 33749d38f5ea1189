/** Fields of a log line besides its message; values must be JSON. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The log for the layers below the command line. pino implements it. */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** Whether lines for debugging are written. */
  isLevelEnabled(level: "debug"): boolean;
}
