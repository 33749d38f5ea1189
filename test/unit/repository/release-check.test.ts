import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEPLOY } from "../../support/overlays.ts";

const ROOT = join(DEPLOY, "..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const FILES = [
  ...["package.json", "package-lock.json", "Dockerfile"],
  ...["deploy/base/kustomization.yaml", "deploy/ci/github-workflow.yaml"],
];
const READY = `# Changelog

## Unreleased

### Commands

## ${version} - 2026-12-01

### Kernel and rules

### Commands

- A command.

## 0.0.1 - 2026-01-01

### Commands

- An older one.
`;

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "release-"));
  for (const file of FILES) cpSync(join(ROOT, file), join(folder, file));
  writeFileSync(join(folder, "CHANGELOG.md"), READY);
});
afterEach(() => rmSync(folder, { recursive: true }));

async function check(...args: readonly string[]) {
  const script = join(ROOT, "scripts/release-check.mjs");
  const { exitCode, stdout, stderr } = await execa(process.execPath, [script, ...args], {
    cwd: folder,
    reject: false,
  });
  return { exitCode, stdout, stderr };
}

function change(file: string, from: string | RegExp, to: string): void {
  const path = join(folder, file);
  writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
}

test("release-check passes a project whose versions agree and whose changelog has a dated section", async () => {
  expect(await check(`v${version}`)).toMatchObject({
    exitCode: 0,
    stdout: `${version} is ready to be released`,
  });
});

test("release-check --notes prints the version's section without empty headings", async () => {
  expect((await check("--notes")).stdout).toBe("### Commands\n\n- A command.");
});

test("release-check refuses a tag of another version", async () => {
  expect(await check("v9.9.9")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("the tag is v9.9.9"),
  });
});

test.each([
  ["Dockerfile", /ARG VERSION=.*/, "ARG VERSION=0.0.9"],
  ["package-lock.json", /"version": "[^"]*"/, '"version": "0.0.9"'],
  ["deploy/base/kustomization.yaml", /newTag: [\w.]+/, "newTag: 0.0.9"],
  ["deploy/ci/github-workflow.yaml", /(NFT_PROXY: \S+):\S+/, "$1:0.0.9"],
])("release-check refuses another version in %s", async (file, from, to) => {
  change(file, from, to);
  expect(await check()).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining(`${file} names version 0.0.9`),
  });
});

test.each([
  ["without a dated section", ` - 2026-12-01`, "", "has no heading"],
  [
    "with entries under Unreleased",
    "### Commands\n\n##",
    "### Commands\n\n- Later.\n\n##",
    "under Unreleased",
  ],
  ["without entries", "- A command.\n", "", "lists nothing"],
])("release-check refuses a changelog %s", async (_, from, to, reason) => {
  change("CHANGELOG.md", from, to);
  expect(await check()).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(reason) });
});
