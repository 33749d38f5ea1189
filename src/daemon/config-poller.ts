import { readFileSync, statSync } from "node:fs";

/** Interval between two readings of the file, as for the files of `run --from`. Milliseconds. */
const PERIOD = 1000;

/**
 * Detects changes of a configuration file by reading it. Events of the file system would miss a ConfigMap's
 * swap of symbolic links. A file that cannot be read counts as unchanged.
 */
export class ConfigPoller {
  readonly #path: string | undefined;
  #text: string | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Reads the file for the first time. @param path undefined or "" for no file, which never changes */
  constructor(path: string | undefined) {
    this.#path = path;
    this.#text = this.#read();
  }

  /** Calls `onChange` for each change since the construction. */
  start(onChange: () => void): void {
    if (!this.#path) return;
    this.#timer = setInterval(() => {
      const before = this.#text;
      this.readAgain();
      if (this.#text !== before) onChange();
    }, PERIOD);
  }

  /** Whether there is a file that can be read more than once, even if it is gone now. */
  get hasFile(): boolean {
    return this.#text !== undefined;
  }

  /** Reads the file now; `onChange` is then only called for later changes. */
  readAgain(): void {
    this.#text = this.#read() ?? this.#text;
  }

  /** Stops the calls of `onChange`. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #read(): string | undefined {
    try {
      // A pipe (`--config=/dev/stdin`) can be read only once, by the code that needs the configuration.
      return this.#path && statSync(this.#path).isFile() ? readFileSync(this.#path, "utf8") : undefined;
    } catch {
      return undefined;
    }
  }
}
