import { describe, expect, it } from "vitest";
import { Lexer, Parser } from "yaml";
import { shallowTokens } from "../../../src/base/yaml-nesting.ts";

const nests = (text: string, levels: number): boolean => {
  const tooDeep = new Error();
  try {
    for (const _ of shallowTokens(new Parser(), new Lexer().lex(text), levels, () => tooDeep));
    return false;
  } catch (error) {
    expect(error).toBe(tooDeep);
    return true;
  }
};

const blockMaps = (levels: number): string =>
  Array.from({ length: levels }, (_, level) => `${" ".repeat(level)}a:`).join("\n");

describe("shallowTokens", () => {
  it.each([
    ["flow sequences", (levels: number) => "[".repeat(levels) + "]".repeat(levels)],
    ["flow sequences left open", (levels: number) => "[".repeat(levels)],
    ["flow mappings", (levels: number) => "{a: ".repeat(levels) + "}".repeat(levels)],
    ["JSON", (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`],
    ["block sequences in one line", (levels: number) => `${"- ".repeat(levels)}x`],
    ["block mappings", blockMaps],
  ])("counts %s", (_, nested) => {
    expect(nests(nested(10), 10)).toBe(false);
    expect(nests(nested(12), 10)).toBe(true);
    expect(nests(nested(2_000), 10)).toBe(true);
  });

  it("counts keys that are collections", () => {
    expect(nests(`${"? ".repeat(3)}x`, 10)).toBe(false);
    expect(nests(`${"? ".repeat(2_000)}x`, 10)).toBe(true);
  });

  it("does not count brackets within strings, or collections beside each other", () => {
    expect(nests(`a: "${"[".repeat(100)}"`, 10)).toBe(false);
    expect(nests("- [a, [b]]\n".repeat(100), 10)).toBe(false);
  });

  it("counts each document separately", () => {
    expect(nests("---\n[[[[[[a]]]]]]\n".repeat(10), 10)).toBe(false);
  });
});
