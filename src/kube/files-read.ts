import { createReadStream } from "node:fs";
import { positionAt, systemReason, unreadable } from "./files-problem.ts";

/** More would not fit into one string of the JavaScript engine. */
const MOST_BYTES = 256 * 1024 * 1024;

/**
 * The text of a file, or of standard input (`-`), at most 256 MiB of UTF-8; a byte order mark is dropped.
 *
 * Throws UNREADABLE_INPUT with file and reason.
 */
export async function readText(file: string, stdin: AsyncIterable<Uint8Array>): Promise<string> {
  const bytes = await readBytes(file, file === "-" ? stdin : createReadStream(file));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    const replaced = new TextDecoder("utf-8").decode(bytes);
    throw unreadable(file, "is not UTF-8 text", positionAt(replaced, replaced.indexOf("\uFFFD")));
  }
}

/** Counts while it reads: what is named may be a pipe or a device without an end. */
async function readBytes(file: string, stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of stream) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > MOST_BYTES) break;
    }
  } catch (error) {
    throw unreadable(file, systemReason(error));
  }
  if (size > MOST_BYTES) throw unreadable(file, `is larger than ${MOST_BYTES / 1024 / 1024} MiB`);
  return Buffer.concat(chunks);
}
