import { readFileSync, statSync } from "node:fs";

/** How often the file is read, milliseconds. It is small, and `run --from` looks as often at its files. */
const PERIOD = 1000;

/**
 * Notices changes of a configuration file by reading it: events of the file system miss a ConfigMap's swap of
 * symbolic links. A file that cannot be read counts as unchanged.
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

  /** Begins to look for changes since the construction. */
  start(onChange: () => void): void {
    if (this.#path) this.#timer = setInterval(() => this.#look(onChange), PERIOD);
  }

  /** Stops looking. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #look(onChange: () => void): void {
    const text = this.#read();
    if (text === undefined || text === this.#text) return;
    this.#text = text;
    onChange();
  }

  #read(): string | undefined {
    try {
      // A pipe (`--config=/dev/stdin`) can be read once, by whoever needs the configuration.
      return this.#path && statSync(this.#path).isFile() ? readFileSync(this.#path, "utf8") : undefined;
    } catch {
      return undefined;
    }
  }
}
