import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { DEPLOY } from "../../support/overlays.ts";
import { workflowErrors } from "../../support/workflow-parser.ts";

interface Step {
  readonly run?: string;
}

const ROOT = join(DEPLOY, "..");
const FOLDER = join(ROOT, ".github/workflows");
const PACKAGE = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

describe.each([
  ...readdirSync(FOLDER).map((name) => join(".github/workflows", name)),
  "deploy/ci/github-workflow.yaml",
])("the workflow %s", (path) => {
  const content = readFileSync(join(ROOT, path), "utf8");
  const jobs = Object.values<{ steps: Step[]; permissions?: Record<string, string> }>(parse(content).jobs);
  const commands = jobs.flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? [])).join("\n");

  test("matches GitHub's schema", () => {
    expect(workflowErrors(content)).toEqual([]);
  });

  test("uses actions by their commit, with the version beside it", () => {
    const used = [...content.matchAll(/\buses: (.*)$/gm)].map(([, text]) => text);
    expect(used.length).toBeGreaterThan(0);
    for (const action of used) expect(action).toMatch(/^[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  test("runs no code of packages in a job that may sign, attest or publish", () => {
    const trusted = jobs.filter(({ permissions = {} }) => Object.values(permissions).includes("write"));
    const run = trusted.flatMap(({ steps }) => steps.flatMap(({ run = "" }) => run)).join("\n");
    expect(run).not.toMatch(/\b(?:npm|npx|\.ci\/run)\b/);
  });

  test("never inserts data of the event into a shell script", () => {
    expect(commands).not.toContain("${{");
  });

  test("runs scripts and names files that exist", () => {
    const scripts = [...commands.matchAll(/\bnpm run ([\w:-]+)/g)].map(([, name]) => name);
    expect(Object.keys(PACKAGE.scripts)).toEqual(expect.arrayContaining(scripts));
    const files = [...commands.matchAll(/(?:^|\s)((?:\.ci|deploy|scripts)\/[\w./-]+)/gm)].map(
      ([, file]) => file ?? "",
    );
    // Written by the workflow itself, from the example beside it.
    const missing = files.filter(
      (file) => !existsSync(join(ROOT, file)) && !existsSync(join(ROOT, `${file}.example`)),
    );
    expect(missing).toEqual([]);
  });
});

describe("the check of workflows", () => {
  test.each([
    ["an unknown key", "on: push\njobs: { a: { runs-on: x, steps: [{ runs: ls }] } }"],
    ["a wrong expression", `on: push\njobs: { a: { runs-on: x, steps: [{ run: '\${{ no.such }}' }] } }`],
    ["a job without a machine", "on: push\njobs: { a: { steps: [{ run: ls }] } }"],
  ])("finds %s", (_, content) => {
    expect(workflowErrors(content)).not.toEqual([]);
  });
});
