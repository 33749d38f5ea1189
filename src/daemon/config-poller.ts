import { readFileSync, statSync } from "node:fs";

/** Interval between two readings of the file, as for the files of `run --from`. Milliseconds. */
const PERIOD = 1000;

/** Detects changes of a configuration file. */
export type ConfigPoller = ReturnType<typeof configPoller>;

/**
 * Detects changes of a configuration file by reading it, for the first time at once. Events of the file
 * system would miss a ConfigMap's swap of symbolic links. A file that cannot be read counts as unchanged.
 * @param path undefined or "" for no file, which never changes
 */
export function configPoller(path: string | undefined) {
  const read = (): string | undefined => {
    try {
      // A pipe (`--config=/dev/stdin`) can be read only once, by the code that needs the configuration.
      return path && statSync(path).isFile() ? readFileSync(path, "utf8") : undefined;
    } catch {
      return undefined;
    }
  };
  let text = read();
  let timer: NodeJS.Timeout | undefined;
  /** Reads the file now; `onChange` is then only called for later changes. */
  const readAgain = () => {
    text = read() ?? text;
  };
  return {
    readAgain,
    /** Whether there is a file that can be read more than once, even if it is gone now. */
    hasFile: () => text !== undefined,
    /** Calls `onChange` for each change since the first reading. */
    start(onChange: () => void): void {
      if (!path) return;
      timer = setInterval(() => {
        const before = text;
        readAgain();
        if (text !== before) onChange();
      }, PERIOD);
    },
    /** Stops the calls of `onChange`. */
    stop: () => clearInterval(timer),
  };
}
