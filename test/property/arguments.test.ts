import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AppError } from "../../src/base/errors.ts";
import type { Flag } from "../../src/base/option.ts";
import { FLAGS } from "../../src/cli/flags.ts";
import { type ParsedArguments, parseArguments } from "../../src/cli/parse-arguments.ts";

const parse = (args: readonly string[]): ParsedArguments => parseArguments(args, () => true);

/** Any text that stands for a value in an argument of its own. */
const separate = fc.string().filter((text) => !text.startsWith("-") || /^-(?:\d|$)/.test(text));

function lettersOf({ name, alias = "" }: Flag): string[] {
  return [alias, name].filter((text) => text.length === 1).map((letter) => `-${letter}`);
}

/** The name of a flag as it may be written. */
function written(flag: Flag): fc.Arbitrary<string> {
  const { name } = flag;
  return fc.constantFrom(`--${name}`, `--${name.replaceAll("-", "_")}`, ...lettersOf(flag));
}

/** What some arguments mean: one flag and its value, or one word. */
interface Meaning {
  readonly args: readonly string[];
  readonly flag?: Flag;
  readonly value?: boolean | string;
}

const booleanFlag: fc.Arbitrary<Meaning> = fc
  .constantFrom(...FLAGS.filter(({ type }) => type === "boolean"))
  .chain((flag) =>
    fc
      .tuple(written(flag), fc.constantFrom("", "=true", "=T", "=1", "=false", "=F", "=0"))
      .map(([spelling, value]) => ({
        args: [`${spelling}${value}`],
        flag,
        value: value === "" || ["=true", "=T", "=1"].includes(value),
      })),
  );

const VALUE_FLAGS = FLAGS.filter(({ type }) => type !== "boolean");

const valueFlag: fc.Arbitrary<Meaning> = fc.constantFrom(...VALUE_FLAGS).chain((flag) =>
  fc.oneof(
    fc
      .tuple(written(flag), fc.string({ minLength: flag.type === "path-list" ? 1 : 0 }))
      .map(([spelling, value]) => ({ args: [`${spelling}=${value}`], flag, value })),
    fc
      .tuple(
        written(flag),
        separate.filter((text) => text !== "" || flag.type !== "path-list"),
      )
      .map(([spelling, value]) => ({ args: [spelling, value], flag, value })),
  ),
);

/** A letter with its value in the same argument: `-v4`. */
const joinedValue: fc.Arbitrary<Meaning> = fc
  .tuple(
    fc.constantFrom(...VALUE_FLAGS.filter((flag) => lettersOf(flag).length > 0)),
    fc.string({ minLength: 1 }).filter((text) => !text.startsWith("=")),
  )
  .map(([flag, value]) => ({ args: [`${lettersOf(flag)[0]}${value}`], flag, value }))
  // A name with one dash is unknown.
  .filter(({ args }) => !FLAGS.some(({ name }) => `-${name}` === args[0]?.replace(/=.*/s, "")));

const word: fc.Arbitrary<Meaning> = fc
  .string()
  .filter((text) => !text.startsWith("-") || text === "-")
  .map((text) => ({ args: [text] }));

/** The result for some meanings in a row, worked out one by one. */
function expected(meanings: readonly Meaning[]): ParsedArguments {
  const words = meanings.filter(({ flag }) => flag === undefined).flatMap(({ args }) => args);
  const values: Record<string, boolean | string[]> = {};
  for (const { flag, value } of meanings) {
    if (flag === undefined || value === undefined) continue;
    values[flag.name] =
      typeof value === "boolean" ? value : [...((values[flag.name] ?? []) as string[]), value];
  }
  return { words, values, unknown: [] };
}

describe("arguments", () => {
  test("flags in any spelling, with any values, between any words, have the same meaning as one by one", () => {
    const meanings = fc.array(fc.oneof(booleanFlag, valueFlag, joinedValue, word), { maxLength: 8 });
    const rest = fc.option(fc.array(fc.string()), { nil: undefined });
    fc.assert(
      fc.property(meanings, rest, (given, after) => {
        const args = [...given.flatMap(({ args }) => args), ...(after === undefined ? [] : ["--", ...after])];
        const { words, ...others } = expected(given);
        expect(parse(args)).toEqual({ words: [...words, ...(after ?? [])], ...others });
      }),
    );
  });

  test("of any texts, each is a word, a value or a flag, or the error names one of them", () => {
    const text = fc.oneof(
      fc.string(),
      fc.constantFrom(
        "-",
        "--",
        "---",
        "--=",
        "-=",
        "-v",
        "-f",
        "-h",
        "--from",
        "--v=",
        "--no-such=1",
        "-x=1",
      ),
    );
    fc.assert(
      fc.property(fc.array(text), (args) => {
        try {
          const { words, values, unknown } = parse(args);
          const told = [...words, ...Object.values(values).flat().map(String), ...unknown];
          for (const each of unknown) expect(args.some((argument) => argument.startsWith(each))).toBe(true);
          expect(told.length).toBeLessThanOrEqual(args.length);
        } catch (error) {
          expect(error).toMatchObject({ code: "BAD_ARGUMENT" });
          expect(error).toBeInstanceOf(AppError);
        }
      }),
    );
  });
});
