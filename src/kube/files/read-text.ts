import { isAscii } from "node:buffer";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { AppError } from "../../base/errors.ts";
import { positionAt, systemReason, unreadable } from "./diagnostic.ts";

/** Maximum size of a file: more bytes would not fit into one JavaScript string. */
const MOST_BYTES = 256 * 1024 * 1024;

/**
 * Reads the text of a file, or of standard input (`-`), at most 256 MiB of UTF-8. A byte order mark is
 * dropped.
 * @throws AppError UNREADABLE_INPUT with file and reason
 */
export async function readText(file: string, stdin: AsyncIterable<Uint8Array>): Promise<string> {
  const bytes = await readBytes(file, stdin);
  // Most API lists are ASCII, which decodes ten times as fast as latin1.
  if (isAscii(bytes)) return bytes.toString("latin1");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    const replaced = new TextDecoder("utf-8").decode(bytes);
    throw unreadable(file, "is not UTF-8 text", positionAt(replaced, replaced.indexOf("\uFFFD")));
  }
}

async function readBytes(file: string, stdin: AsyncIterable<Uint8Array>): Promise<Buffer> {
  try {
    if (file === "-") return await readStream(file, stdin);
    const found = await stat(file);
    if (!found.isFile()) return await readStream(file, createReadStream(file));
    if (found.size > MOST_BYTES) throw tooLarge(file);
    return await readFile(file);
  } catch (error) {
    throw error instanceof AppError
      ? error
      : unreadable(file, systemReason(error), undefined, { cause: error });
  }
}

/** Checks the size while reading, because the stream may be an endless pipe or device. */
async function readStream(file: string, stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MOST_BYTES) throw tooLarge(file);
  }
  return Buffer.concat(chunks);
}

function tooLarge(file: string): AppError {
  return unreadable(file, `is larger than ${MOST_BYTES / 1024 / 1024} MiB`);
}
