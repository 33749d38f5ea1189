import { AppError, messageOf } from "../base/errors.ts";

/** What a command came to. Commands return it; only program.ts prints it and ends the process. */
export interface CommandResult {
  readonly exitCode: number;
  /** For standard output, whole, with its last newline. */
  readonly output?: string;
  /** For standard error, a line each: warnings and what was left out. */
  readonly notices?: readonly string[];
}

/** Exit codes that every command has in common. */
export const EXIT = { ok: 0, refused: 1, badInput: 2 } as const;

/** Where a command line is run: streams and context, so that tests can give their own. */
export interface ProgramContext {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  readonly stdin: NodeJS.ReadableStream;
  /** Columns of the terminal, 80 when there is none. */
  readonly columns: number;
}

/** An error for a person: message, what proves it, what to do. Never a stack. */
export function errorText(error: unknown): string {
  const lines = [`nft-proxy: ${messageOf(error)}`];
  if (error instanceof AppError) {
    for (const [name, value] of Object.entries(error.evidence)) lines.push(`  ${name}: ${indented(value)}`);
    if (error.hint !== undefined) lines.push(`  hint: ${error.hint}`);
  }
  return `${lines.join("\n")}\n`;
}

/** 2 for what was given wrong, 1 for what was refused. */
export function exitCodeOf(error: unknown): number {
  if (!(error instanceof AppError)) return EXIT.refused;
  switch (error.code) {
    case "BAD_ARGUMENT":
    case "BAD_CONFIG":
    case "UNREADABLE_INPUT":
      return EXIT.badInput;
    default:
      return EXIT.refused;
  }
}

function indented(text: string): string {
  return text.replaceAll("\n", "\n    ");
}
