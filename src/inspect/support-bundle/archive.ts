import { gzipSync } from "node:zlib";

/** A file of an archive. */
export interface ArchiveFile {
  /** Relative, at most 100 bytes of ASCII. */
  readonly name: string;
  readonly text: string;
}

const BLOCK = 512;

/**
 * A gzipped tar archive (POSIX.1-1988, ustar) of text files that only their owner can read.
 * @param modified seconds since 1970, of every file
 */
export function archiveOf(files: readonly ArchiveFile[], modified: number): Uint8Array {
  const parts = files.flatMap(({ name, text }) => {
    const content = Buffer.from(text);
    const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK);
    return [header(name, content.length, modified), content, padding];
  });
  return gzipSync(Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]));
}

function header(name: string, size: number, modified: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  block.write(name, 0, 100, "latin1");
  block.write(octal(0o600, 7), 100);
  block.write(octal(0, 7), 108);
  block.write(octal(0, 7), 116);
  block.write(octal(size, 11), 124);
  block.write(octal(modified, 11), 136);
  // The checksum counts its own field as blanks.
  block.write("        ", 148);
  block.write("0", 156);
  block.write("ustar\0" + "00", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}
