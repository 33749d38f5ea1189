import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { COMMANDS } from "../../../src/cli/commands.ts";
import { FLAGS } from "../../../src/config/flags.ts";
import { DEPLOY } from "../../support/overlays.ts";

const ROOT = join(DEPLOY, "..");
const DOCUMENTS = ["README.md", "deploy/README.md", "SECURITY.md", "CHANGELOG.md"] as const;

/** What is set as code in a text: between backticks, and indented or fenced lines. */
function code(text: string): string[] {
  return [...text.matchAll(/`([^`\n]+)`/g)].map(([, words]) => words ?? "");
}

describe.each(DOCUMENTS)("%s", (document) => {
  const words = code(readFileSync(join(ROOT, document), "utf8"));

  test("names files that exist", () => {
    const paths = words.filter((word) => /^(?:base|ci|deploy|monitoring|overlays|schemas|test)\/[\w./-]+$/.test(word));
    const missing = paths.filter((path) => !existsSync(join(ROOT, path)) && !existsSync(join(DEPLOY, path)));
    expect(missing).toEqual([]);
  });

  test("names commands, flags and scripts that exist", () => {
    const commands = words.flatMap((word) => /\bnft-proxy ([a-z]+)/.exec(word)?.[1] ?? []);
    // completion is the argument parser's own.
    expect([...COMMANDS.map(({ name }) => name), "completion"]).toEqual(expect.arrayContaining(commands));
    const flags = words.flatMap((word) => /^(?:nft-proxy .*)?--([a-z-]+)/.exec(word)?.[1] ?? []);
    expect(FLAGS.map(({ name }) => name)).toEqual(expect.arrayContaining(flags));
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const used = words.flatMap((word) => /^npm run ([\w-]+)/.exec(word)?.[1] ?? []);
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(used));
  });
});

test("deploy/README.md tells of every overlay", () => {
  const words = code(readFileSync(join(DEPLOY, "README.md"), "utf8"));
  for (const overlay of readdirSync(join(DEPLOY, "overlays"))) expect(words).toContain(`overlays/${overlay}`);
});

test("the workflow runs a command that exists, with flags that it takes", () => {
  const workflow = readFileSync(join(DEPLOY, "ci/github-workflow.yaml"), "utf8");
  const [, name, rest = ""] = /run: nft-proxy (\S+)(.*)/.exec(workflow) ?? [];
  const command = COMMANDS.find((one) => one.name === name);
  const flags = [...rest.matchAll(/--([a-z-]+)/g)].map(([, flag]) => flag);
  expect(command?.flags).toEqual(expect.arrayContaining(flags));
});
