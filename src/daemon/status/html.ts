/** A piece of HTML that is safe to put into a page. Only {@link html} makes it. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What may stand in a template: text is escaped, HTML and lists of it are not, undefined is nothing. */
export type HtmlValue = string | number | Html | readonly Html[] | undefined;

/** A template of HTML whose values are escaped, for element content and for attributes in double quotes. */
export function html(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return new Html(parts.map((part, i) => (i === 0 ? part : `${textOf(values[i - 1])}${part}`)).join(""));
}

function textOf(value: HtmlValue): string {
  if (value === undefined) return "";
  if (value instanceof Html) return value.text;
  return typeof value === "object" ? value.map(({ text }) => text).join("") : escaped(String(value));
}

/** Bytes of the longest entity, or character, of one character of a text. */
const LONGEST_CHARACTER = 6;

/** A text as it is if it takes at most so many bytes in a page, else its beginning. */
export function clipped(text: string, most: number): string {
  if (Buffer.byteLength(escaped(text.slice(0, most + 1))) <= most) return text;
  const isPlain = /^[ -~]*$/.test(text) && !/[&<>"']/.test(text);
  return `${text.slice(0, isPlain ? most : Math.floor(most / LONGEST_CHARACTER))}…`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

/** The colour of a state: good, bad, or excluded for a reason. */
export type Tone = "good" | "bad" | "idle";
