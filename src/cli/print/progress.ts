import { isTerminal, type MaybeTerminal } from "./style.ts";

/** Shows the current step of a command that takes long. */
export interface Progress {
  /** Begins another step: `reading objects`, without a full stop. */
  readonly step: (what: string) => void;
}

/** A terminal, or another stream in its place. */
export interface ProgressStream extends MaybeTerminal {
  write(text: string): unknown;
}

/** Goes to the beginning of the line and clears it (ECMA-48: CR, EL). */
const CLEAR_LINE = "\r\u001b[K";

/** Progress in one line of a terminal, which `clear` takes away again; nothing where there is none that can do this. */
export function terminalProgress(
  stream: ProgressStream,
  environment: NodeJS.ProcessEnv = process.env,
): Progress & { readonly clear: () => void } {
  if (!isTerminal(stream, environment)) return { step: () => {}, clear: () => {} };
  let shown = false;
  return {
    step: (what) => {
      stream.write(`${CLEAR_LINE}${what} ...`);
      shown = true;
    },
    clear: () => {
      if (shown) stream.write(CLEAR_LINE);
      shown = false;
    },
  };
}
