import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { stringify } from "yaml";
import { AppError } from "../../src/base/errors.ts";
import type { FilesResult } from "../../src/kube/files/object-gatherer.ts";
import { readFiles } from "../../src/kube/files/read-files.ts";
import { runs } from "../support/property-runs.ts";

/** Some of these read files hundreds of times; milliseconds, for a busy machine. */
const SLOW = 60_000;

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "files-property-"));
});

afterAll(() => {
  rmSync(directory, { recursive: true });
});

async function* nothing(): AsyncIterable<Uint8Array> {}

interface List {
  readonly apiVersion: string;
  readonly kind: string;
  readonly items: readonly object[];
}

const lists = ["services", "endpointslices", "nodes", "servicecidrs"].map((name): List => {
  return JSON.parse(readFileSync(new URL(`../fixtures/town/objects/${name}.json`, import.meta.url), "utf8"));
});
const objects = lists.flatMap(({ apiVersion, kind, items }) =>
  items.map((item) => ({ apiVersion, kind: kind.replace("List", ""), ...item })),
);

/** The objects of a result, sorted: without their origins. */
function contents({ objects: found }: FilesResult): string[] {
  return Object.values(found)
    .flat()
    .map(({ value }) => JSON.stringify(value))
    .sort();
}

test(
  "readFiles gives the same objects in any order, over any files, as JSON or YAML",
  async () => {
    const whole = join(directory, "whole.json");
    writeFileSync(whole, JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
    const expected = contents(await readFiles([whole], nothing()));
    const shuffled = fc.shuffledSubarray(objects, { minLength: objects.length });
    const cuts = fc.array(fc.nat(objects.length), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(shuffled, cuts, fc.boolean(), fc.boolean(), async (all, at, isYaml, isReversed) => {
        const bounds = [0, ...at, objects.length].sort((a, b) => a - b);
        const paths = bounds.slice(1).map((end, index) => {
          const file = join(directory, `part-${index}.${isYaml ? "yaml" : "json"}`);
          const part = all.slice(bounds[index], end);
          const asYaml = part.map((object) => stringify(object)).join("---\n");
          writeFileSync(
            file,
            isYaml ? asYaml : JSON.stringify({ apiVersion: "v1", kind: "List", items: part }),
          );
          return file;
        });
        const result = await readFiles(isReversed ? paths.toReversed() : paths, nothing());
        expect(contents(result)).toEqual(expected);
        expect(result.diagnostics.filter(({ severity }) => severity === "error")).toEqual([]);
      }),
      { numRuns: runs(10) },
    );
  },
  SLOW,
);

/**
 * Reads a text that may be anything: it gives a result or an AppError, and all that is wrong has its place.
 */
async function survives(name: string, text: string | Uint8Array): Promise<FilesResult | AppError> {
  const file = join(directory, name);
  writeFileSync(file, text);
  try {
    const result = await readFiles([file], nothing());
    for (const diagnostic of result.diagnostics) {
      expect(diagnostic).toMatchObject({
        file,
        path: expect.any(String),
        reason: expect.stringMatching(/^\S/),
      });
    }
    return result;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    expect(error).toMatchObject({
      code: "UNREADABLE_INPUT",
      evidence: { file, reason: expect.stringMatching(/^\S/) },
    });
    return error;
  }
}

const json = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects.slice(0, 12) }, null, 1);
const yaml = objects
  .slice(0, 4)
  .map((object) => stringify(object))
  .join("---\n");

test(
  "a JSON file cut short anywhere is refused with the line",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(json.length - 1), async (length) => {
        const error = await survives("cut.json", json.slice(0, length));
        expect(error).toMatchObject({
          code: "UNREADABLE_INPUT",
          evidence: { line: expect.stringMatching(/^[1-9]\d*$/) },
        });
      }),
      { numRuns: runs(200) },
    );
  },
  SLOW,
);

test(
  "a YAML file cut short anywhere gives no objects that the whole file does not have",
  async () => {
    const whole = await survives("whole.yaml", yaml);
    const names = (result: FilesResult | AppError) =>
      result instanceof AppError ? [] : result.objects.services.map(({ value }) => value.name);
    await fc.assert(
      fc.asyncProperty(fc.nat(yaml.length), async (length) => {
        const result = await survives("cut.yaml", yaml.slice(0, length));
        // The last name may itself be cut.
        expect(names(whole)).toEqual(expect.arrayContaining(names(result).slice(0, -1)));
      }),
      { numRuns: runs(100) },
    );
  },
  SLOW,
);

const scrap = fc.oneof(
  fc.constantFrom(
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    '"',
    "'",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "---\n",
    "\t",
    "\0",
    "- ",
    "? ",
    "|\n",
  ),
  fc.string(),
  fc.constantFrom("10.0.0.1; flush ruleset", "010.1.1.1", "fe80::1%eth0", "null", "1e999", "-1", "&x [*x]"),
);

test.each([
  ["scrap.json", json],
  ["scrap.yaml", yaml],
])(
  "%s with random fragments in its text is read, or refused with file and reason",
  async (name, text) => {
    const edits = fc.array(fc.tuple(fc.nat(text.length), fc.nat(20), scrap), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(edits, async (all) => {
        const broken = all.reduce(
          (before, [at, skip, put]) => before.slice(0, at) + put + before.slice(at + skip),
          text,
        );
        await survives(name, broken);
      }),
      { numRuns: runs(200) },
    );
  },
  SLOW,
);

test(
  "a file of random bytes is read, or refused with file and reason",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.boolean(), async (bytes, isYaml) => {
        await survives(isYaml ? "bytes.yaml" : "bytes.json", bytes);
      }),
      { numRuns: runs(300) },
    );
  },
  SLOW,
);
