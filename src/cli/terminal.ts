import { styleText } from "node:util";
import type { Reporter } from "./command.ts";

/** How a text for people is printed to a stream: its highlighting and line breaks. */
export interface Style {
  /** Columns of a line; infinite if lines are not broken. */
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

/**
 * Formats that are readable on light and dark terminals. {@link styleFor}, not Node, decides whether a stream
 * uses them.
 */
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

/** Whether a stream is a terminal with control sequences. Those with `TERM=dumb` have none. */
function isTerminal({ isTTY }: MaybeTerminal, { TERM }: NodeJS.ProcessEnv): boolean {
  return isTTY === true && TERM !== "dumb";
}

/**
 * The style for a stream. Lines have `COLUMNS` columns, else those of the terminal; pipes and files get whole
 * lines. Terminals are coloured unless `NO_COLOR` is set; `FORCE_COLOR` overrides both, and `0` or `false`
 * turn colours off. Empty variables count as absent. Sources: https://no-color.org, https://force-color.org,
 * and POSIX for `COLUMNS` (git and ls do the same)
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

/**
 * Formats rows as lines whose columns are as wide as their widest cells.
 * @param right the column that is aligned to the right, if any
 */
export function tableLines(rows: readonly (readonly string[])[], right = -1): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const padded = (cell: string, column: number) => {
    const width = widths[column] ?? 0;
    return column === right ? cell.padStart(width) : cell.padEnd(width);
  };
  return rows.map((row) => row.map(padded).join("  ").trimEnd());
}

/** Replaces control characters: with them, an object's text could move the terminal's cursor. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, "?");
}

/**
 * Breaks a text at spaces into printable lines of at most `width` columns. Longer words stay whole.
 * @param text without control sequences: style the lines afterwards
 * @param first the prefix of the first line; `rest` that of the others
 */
export function wrapped(text: string, first: string, rest: string, width: number): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of printable(text).split(" ")) {
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

/** Breaks a text into lines at an indent, which is two columns deeper from the second line on. */
export function paragraph(text: string, indent: number, { columns }: Pick<Style, "columns">): string[] {
  return wrapped(text, " ".repeat(indent), " ".repeat(indent + 2), columns);
}

/** A stream that progress is written to. */
export interface ProgressStream extends MaybeTerminal {
  write(text: string): unknown;
}

/** Returns to the beginning of the line and clears it (ECMA-48: CR, EL). */
const CLEAR_LINE = "\r\u001b[K";

/** Shows progress in one line of a terminal, which `clear` removes. Shows nothing on other streams. */
export function terminalProgress(
  stream: ProgressStream,
  environment: NodeJS.ProcessEnv = process.env,
): Pick<Reporter, "step"> & { readonly clear: () => void } {
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
