import { AppError, messageOf } from "../base/errors.ts";

/** For standard output: text with its last newline, whole or in pieces as they come; or bytes. */
export type Output = string | Uint8Array | AsyncIterable<string>;

/** The result of a command; program.ts prints it and ends the process. */
export interface CommandResult {
  /** {@link EXIT.ok} if absent. */
  readonly exitCode?: number;
  readonly output?: Output;
}

/** The exit codes of all commands, like those of diff(1). */
export const EXIT = {
  ok: 0,
  /** The command is done, and has found something that is refused, differs or is wrong. */
  found: 1,
  /** The command is not done, or has no answer: bad input, or an API server, daemon or nft that fails. */
  failed: 2,
} as const;

/** Where a command line prints. */
export interface ProgramContext {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  /** Columns of the terminal, 80 when there is none. */
  readonly columns: number;
}

/** The text of an error: message, evidence that is not in the message, and hint; never a stack trace. */
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

/** A value for programs, as JSON that people can read, too. Ends with a line feed. */
export function jsonText(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function indented(text: string): string {
  return text.replaceAll("\n", "\n    ");
}

/** Turns a command's JSON into YAML. Each line of JSON that comes in pieces becomes a document of its own. */
export async function asYaml(json: Output): Promise<Output> {
  const { stringify } = await import("yaml");
  // Version 1.1 also quotes text that its readers would parse as another type, such as `no`. kubectl is one
  // of them.
  const yaml = (text: string) => stringify(JSON.parse(text), { version: "1.1", lineWidth: 0 });
  if (typeof json === "string") return json === "" ? json : yaml(json);
  if (json instanceof Uint8Array) return json;
  const documents = (piece: string) =>
    piece.split("\n").flatMap((line) => (line === "" ? [] : [`---\n${yaml(line)}`]));
  return textsOf(json, (piece) => documents(piece).join(""));
}

/** The text of each item, as they come. */
export async function* textsOf<Item>(
  items: AsyncIterable<Item>,
  textOf: (item: Item) => string | Promise<string>,
): AsyncGenerator<string, void, undefined> {
  for await (const item of items) yield await textOf(item);
}
