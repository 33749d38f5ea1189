import { describe, expect, it } from "vitest";
import { nestsDeeperThan } from "../../../src/base/yaml-nesting.ts";

const blockMaps = (levels: number): string =>
  Array.from({ length: levels }, (_, level) => `${" ".repeat(level)}a:`).join("\n");

describe("nestsDeeperThan", () => {
  it.each([
    ["flow sequences", (levels: number) => "[".repeat(levels) + "]".repeat(levels)],
    ["flow sequences left open", (levels: number) => "[".repeat(levels)],
    ["flow mappings", (levels: number) => "{a: ".repeat(levels) + "}".repeat(levels)],
    ["JSON", (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`],
    ["block sequences in one line", (levels: number) => `${"- ".repeat(levels)}x`],
    ["block mappings", blockMaps],
  ])("counts %s", (_, nested) => {
    expect(nestsDeeperThan(nested(10), 10)).toBe(false);
    expect(nestsDeeperThan(nested(12), 10)).toBe(true);
    expect(nestsDeeperThan(nested(2_000), 10)).toBe(true);
  });

  it("counts keys that are collections", () => {
    expect(nestsDeeperThan(`${"? ".repeat(3)}x`, 10)).toBe(false);
    expect(nestsDeeperThan(`${"? ".repeat(2_000)}x`, 10)).toBe(true);
  });

  it("does not count brackets inside texts, nor what follows one another", () => {
    expect(nestsDeeperThan(`a: "${"[".repeat(100)}"`, 10)).toBe(false);
    expect(nestsDeeperThan("- [a, [b]]\n".repeat(100), 10)).toBe(false);
  });

  it("begins anew with each document", () => {
    expect(nestsDeeperThan("---\n[[[[[[a]]]]]]\n".repeat(10), 10)).toBe(false);
  });
});
