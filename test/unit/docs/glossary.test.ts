import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DEPLOY } from "../../support/overlays.ts";

const ROOT = join(DEPLOY, "..");
const OWN_NAME = "test/unit/docs/glossary.test.ts";

/**
 * The words between backticks in the first column of the glossary's first table of words that are not used.
 */
function unusedWords(): string[] {
  const glossary = readFileSync(join(ROOT, "docs/dev/glossary.md"), "utf8");
  const [, section = ""] = glossary.split("## Words not used\n");
  const [table = ""] = section.split("\nThese words");
  const columns = [...table.matchAll(/^\| (`.*?) \|/gm)].map(([, column]) => column ?? "");
  return columns.flatMap((column) => [...column.matchAll(/`([^`]+)`/g)].map(([, word]) => word ?? ""));
}

/** Each source file as one line, without the marks of comments: a phrase may be broken over two lines. */
const TEXTS = new Map(
  ["src", "test"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .map((path) => `${folder}/${path}`)
      .filter((path) => path.endsWith(".ts") && path !== OWN_NAME)
      .map(
        (path) =>
          [path, readFileSync(join(ROOT, path), "utf8").replaceAll(/\s+(?:\*|\/\/)?\s*/g, " ")] as const,
      ),
  ),
);

function filesWith(word: string): string[] {
  const pattern = new RegExp(`\\b${word}s?\\b`, "i");
  return [...TEXTS].flatMap(([path, text]) => (pattern.test(text) ? [path] : []));
}

describe("words that the glossary replaces", () => {
  test("are read from the glossary", () => {
    expect(unusedWords().length).toBeGreaterThan(25);
  });

  test.each(unusedWords())("%s does not occur in src and test", (word) => {
    expect(filesWith(word)).toEqual([]);
  });

  test("are found where they occur, also across the end of a line", () => {
    expect(filesWith("marks of comments")).toEqual([]);
    expect(filesWith("change tracker")).not.toEqual([]);
  });
});
