import { writeFileSync } from "node:fs";
import { AppError, messageOf } from "../base/errors.ts";

/** Writes a file that only its owner can read. Throws AppError HOST. */
export function writeTextFile(path: string, text: string): void {
  try {
    writeFileSync(path, text, { mode: 0o600 });
  } catch (error) {
    throw new AppError("HOST", `cannot write ${path}: ${messageOf(error)}`);
  }
}
