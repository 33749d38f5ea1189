import { AppError, messageOf } from "../base/errors.ts";

/** For standard output: text with its last newline, whole or in pieces as they come; or bytes. */
export type Output = string | Uint8Array | AsyncIterable<string>;

/** The result of a command. Only program.ts prints it and ends the process. */
export interface CommandResult {
  readonly exitCode: number;
  readonly output?: Output;
  /** For standard error, one line each: warnings, and objects that were ignored. */
  readonly notices?: readonly string[];
}

/**
 * Exit codes of all commands. 1 is `failure`, or `differs` of commands whose exit code 1 is an answer; when these can give none, 2 is
 * `trouble`.
 */
export const EXIT = { ok: 0, failure: 1, differs: 1, badInput: 2, trouble: 2 } as const;

/** The streams and terminal of a command line; tests give their own. */
export interface ProgramContext {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  readonly stdin: NodeJS.ReadableStream;
  /** Columns of the terminal, 80 when there is none. */
  readonly columns: number;
}

/** An error for people: message, evidence that the message lacks, and hint; never a stack trace. */
export function errorText(error: unknown): string {
  const lines = [`nft-proxy: ${messageOf(error)}`];
  if (error instanceof AppError) {
    for (const [name, value] of Object.entries(error.evidence)) {
      if (!error.message.includes(value.trim())) lines.push(`  ${name}: ${indented(value.trim())}`);
    }
    if (error.hint !== undefined) lines.push(`  hint: ${error.hint}`);
  }
  return `${lines.join("\n")}\n`;
}

/** A command's end by an error that comes after notices, which help to understand it. */
export function failed(error: unknown, notices: readonly string[]): CommandResult {
  return { exitCode: EXIT.trouble, notices: [...notices, errorText(error).trimEnd()] };
}

/**
 * The exit code of a command that an error ended: 2 for bad input, 1 for every other failure.
 * @param answersByExitCode exit code 1 is one of the command's answers: every failure is 2
 */
export function exitCodeOf(error: unknown, answersByExitCode = false): number {
  if (answersByExitCode) return EXIT.trouble;
  if (!(error instanceof AppError)) return EXIT.failure;
  switch (error.code) {
    case "BAD_ARGUMENT":
    case "BAD_CONFIG":
    case "UNREADABLE_INPUT":
      return EXIT.badInput;
    default:
      return EXIT.failure;
  }
}

function indented(text: string): string {
  return text.replaceAll("\n", "\n    ");
}

/** Turns a command's JSON into YAML. Each line of JSON that comes in pieces becomes a document of its own. */
export async function asYaml(json: Output): Promise<Output> {
  const { stringify } = await import("yaml");
  // Version 1.1 also quotes what its readers take for another type, such as `no`. kubectl is one of them.
  const yaml = (text: string) => stringify(JSON.parse(text), { version: "1.1", lineWidth: 0 });
  if (typeof json === "string") return json === "" ? json : yaml(json);
  if (json instanceof Uint8Array) return json;
  return documents(json, yaml);
}

async function* documents(
  pieces: AsyncIterable<string>,
  yaml: (json: string) => string,
): AsyncIterable<string> {
  for await (const piece of pieces)
    for (const line of piece.split("\n")) if (line !== "") yield `---\n${yaml(line)}`;
}
