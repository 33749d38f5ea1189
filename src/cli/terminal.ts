import { styleText } from "node:util";

/** How a text for people is printed to a stream: highlighting, and where lines are broken. */
export interface Style {
  /** Columns of a line; infinite where lines are not broken. */
  readonly columns: number;
  readonly heading: (text: string) => string;
  readonly aside: (text: string) => string;
  readonly good: (text: string) => string;
  readonly bad: (text: string) => string;
}

const same = (text: string): string => text;

/** For files and pipes: no colours, no line breaks within a sentence. */
export const PLAIN: Style = {
  columns: Number.POSITIVE_INFINITY,
  heading: same,
  aside: same,
  good: same,
  bad: same,
};

/** Formats that both light and dark terminals show well. {@link styleFor} decides whether a stream has them, not Node. */
const rendered = (format: "bold" | "dim" | "green" | "red") => (text: string) =>
  styleText(format, text, { validateStream: false });

/** For terminals. */
export const COLOURED: Style = {
  ...PLAIN,
  heading: rendered("bold"),
  aside: rendered("dim"),
  good: rendered("green"),
  bad: rendered("red"),
};

/** A stream that may be a terminal. */
export interface MaybeTerminal {
  readonly isTTY?: boolean | undefined;
  /** The width of the terminal. */
  readonly columns?: number | undefined;
}

/** Whether a stream is a terminal that knows control sequences; `TERM=dumb` names one that does not. */
function isTerminal({ isTTY }: MaybeTerminal, { TERM }: NodeJS.ProcessEnv): boolean {
  return isTTY === true && TERM !== "dumb";
}

/**
 * The style for a stream. Lines have `COLUMNS` columns, else those of the terminal; pipes and files get whole lines.
 * Terminals are coloured unless `NO_COLOR` is set; `FORCE_COLOR` overrides both, and `0` or `false` turn colours off.
 * Empty variables count as absent.
 * Sources: https://no-color.org, https://force-color.org, and POSIX for `COLUMNS` (git and ls do the same)
 */
export function styleFor(stream: MaybeTerminal, environment: NodeJS.ProcessEnv): Style {
  const { FORCE_COLOR, NO_COLOR } = environment;
  const isWanted = FORCE_COLOR
    ? FORCE_COLOR !== "0" && FORCE_COLOR !== "false"
    : isTerminal(stream, environment) && !NO_COLOR;
  return { ...(isWanted ? COLOURED : PLAIN), columns: columnsOf(stream, environment) };
}

function columnsOf({ isTTY, columns }: MaybeTerminal, { COLUMNS = "" }: NodeJS.ProcessEnv): number {
  if (/^[1-9]\d{0,4}$/.test(COLUMNS)) return Number(COLUMNS);
  // A terminal without a size, such as a serial console, reports 0.
  return isTTY === true && columns ? columns : PLAIN.columns;
}

/** Control characters would let an object's text move a terminal's cursor. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, "?");
}

/**
 * Breaks a text at blanks into lines of at most `width` columns; longer words are left whole.
 * @param first before the first line; `rest` before the others
 */
export function wrapped(text: string, first: string, rest: string, width: number): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of text.split(" ")) {
    if (!isEmpty && line.length + 1 + word.length > width) {
      lines.push(line);
      line = rest;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}

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
