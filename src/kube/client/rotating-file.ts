import { readFile } from "node:fs/promises";
import { AppError } from "../../base/errors.ts";
import { systemReason } from "../files/diagnostic.ts";

/**
 * A file that is replaced from time to time (a projected token, a CA bundle). While it is unreadable, or empty because
 * it is being written, its last content is used.
 */
export class RotatingFile {
  readonly #path: string;
  #last = "";

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Reads the file.
   * @throws AppError UNREADABLE_INPUT if it could never be read
   */
  async read(): Promise<string> {
    try {
      const content = await readFile(this.#path, "utf8");
      this.#last = content === "" ? this.#last : content;
    } catch (cause) {
      if (this.#last === "") throw unreadable(this.#path, systemReason(cause), cause);
    }
    if (this.#last === "") throw unreadable(this.#path, "it is empty");
    return this.#last;
  }
}

function unreadable(path: string, reason: string, cause?: unknown): AppError {
  return new AppError("UNREADABLE_INPUT", `cannot read ${path}: ${reason}`, { cause, evidence: { path } });
}
