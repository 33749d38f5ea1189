/** HTML that is safe in a page. Only {@link html} makes it. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A value of a template: text is escaped, HTML and lists of HTML are not, undefined is empty. */
export type HtmlValue = string | number | Html | readonly Html[] | undefined;

/** Makes HTML from a template. Its values are escaped for element content and attributes in double quotes. */
export function html(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return new Html(parts.map((part, i) => (i === 0 ? part : `${textOf(values[i - 1])}${part}`)).join(""));
}

function textOf(value: HtmlValue): string {
  if (value === undefined) return "";
  if (value instanceof Html) return value.text;
  return typeof value === "object" ? value.map(({ text }) => text).join("") : escaped(String(value));
}

/** Maximum size of one character of a text in a page, as an entity or in UTF-8. Bytes. */
const LONGEST_CHARACTER = 5;

/** Shortens a text that takes more than `most` bytes in a page. */
export function clipped(text: string, most: number): string {
  if (Buffer.byteLength(escaped(text.slice(0, most + 1))) <= most) return text;
  const isPlain = /^[ -~]*$/.test(text) && !/[&<>"']/.test(text);
  return `${text.slice(0, isPlain ? most : Math.floor(most / LONGEST_CHARACTER))}…`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The colour of a state: good, bad, or neither. */
export type Tone = "good" | "bad" | "idle";
