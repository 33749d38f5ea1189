import { badArgument } from "./errors.ts";
import { alternatives, quoted } from "./text.ts";

/**
 * Returns the word of `words` that `text` is. `subject` is what has the value: a flag, for example.
 * @throws AppError BAD_ARGUMENT for any other text
 */
export function oneOf<Word extends string>(subject: string, words: readonly Word[], text: string): Word {
  const word = words.find((each) => each === text);
  if (word !== undefined) return word;
  throw badArgument(`${subject} must be ${alternatives(words)}, not ${quoted(text)}`);
}

/**
 * Returns the decimal number from 1 to `most` that `text` is, without a sign or leading zeros.
 * @throws AppError BAD_ARGUMENT for any other text
 */
export function numberUpTo(most: number, subject: string, text: string): number {
  const number = /^[1-9]\d*$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= most) return number;
  throw badArgument(`${subject} must be a number from 1 to ${most}, not ${quoted(text)}`);
}
