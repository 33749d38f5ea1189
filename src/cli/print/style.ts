/** The highlighting of parts of a text. */
export interface Style {
  readonly heading: (text: string) => string;
  readonly aside: (text: string) => string;
  readonly good: (text: string) => string;
  readonly bad: (text: string) => string;
}

const same = (text: string): string => text;

/** For files and pipes. */
export const PLAIN: Style = { heading: same, aside: same, good: same, bad: same };

/** Select Graphic Rendition (ECMA-48), in colours that both light and dark terminals show well. */
const rendered = (on: number, off: number) => (text: string) => `\u001b[${on}m${text}\u001b[${off}m`;

/** For terminals. */
export const COLOURED: Style = {
  heading: rendered(1, 22),
  aside: rendered(2, 22),
  good: rendered(32, 39),
  bad: rendered(31, 39),
};

/** A stream that may be a terminal. */
export interface MaybeTerminal {
  readonly isTTY?: boolean | undefined;
}

/** Whether a stream is a terminal that knows control sequences; `TERM=dumb` names one that does not. */
export function isTerminal({ isTTY }: MaybeTerminal, { TERM }: NodeJS.ProcessEnv): boolean {
  return isTTY === true && TERM !== "dumb";
}

/**
 * The style for a stream: coloured for terminals, unless `NO_COLOR` is set; `FORCE_COLOR` decides before everything
 * else, `0` and `false` against colours. Empty variables count as absent.
 * Sources: https://no-color.org, https://force-color.org
 */
export function styleFor(stream: MaybeTerminal, environment: NodeJS.ProcessEnv): Style {
  const { FORCE_COLOR, NO_COLOR } = environment;
  if (FORCE_COLOR) return FORCE_COLOR === "0" || FORCE_COLOR === "false" ? PLAIN : COLOURED;
  return isTerminal(stream, environment) && !NO_COLOR ? COLOURED : PLAIN;
}

/** Control characters would let an object's text move a terminal's cursor. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, "?");
}

/**
 * Breaks a text at blanks into lines of at most `width` columns; longer words are left whole.
 * @param first before the first line; `rest` before the others
 */
export function wrapped(text: string, first: string, rest: string, width = 80): string[] {
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
