import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DEPLOY } from "../../support/overlays.ts";

const ROOT = join(DEPLOY, "..");
/** As `lineWidth` of the formatter, which does not wrap comments. */
const WIDTH = 110;
/** A line of a comment without an address, which cannot be wrapped. */
const COMMENT = /^\s*(?:\/\*\*|\* |\/\/)(?!.*https?:)/;

test("lines of comments are at most as wide as the formatter's", () => {
  const wide = ["src", "test", "scripts"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => /\.(?:ts|mjs)$/.test(path))
      .flatMap((path) =>
        readFileSync(join(ROOT, folder, path), "utf8")
          .split("\n")
          .filter((line) => line.length > WIDTH && COMMENT.test(line))
          .map((line) => `${folder}/${path}: ${line}`),
      ),
  );
  expect(wide).toEqual([]);
});
