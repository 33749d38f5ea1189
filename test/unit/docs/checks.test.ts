import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DIAGNOSTIC_CODES } from "../../../src/kube/decode/diagnostic-code.ts";

const ROOT = join(import.meta.dirname, "../../..");
const page = readFileSync(join(ROOT, "docs/checks.md"), "utf8");

test("docs/checks.md lists every code of a diagnostic in order, with severity, cause and remedy", () => {
  const rows = [
    ...page.matchAll(/^\| `([a-z-]+)` +\| (error|warning|both) +\| [A-Z`].+\. +\| [A-Z].+\. +\|$/gm),
  ];
  expect(rows.map(([, code]) => code)).toEqual(DIAGNOSTIC_CODES);
});

test("every code of a diagnostic is in use", () => {
  const sources = ["src/kube", "src/inspect/check", "src/cli/commands", "src/features"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts") && !path.endsWith("diagnostic-code.ts"))
      .map((path) => readFileSync(join(ROOT, folder, path), "utf8")),
  );
  const text = sources.join("");
  expect(DIAGNOSTIC_CODES.filter((code) => !text.includes(`"${code}"`))).toEqual([]);
});

test("docs/checks.md names the version of the API whose fields are known", () => {
  const model = join(ROOT, "node_modules/@kubernetes/client-node/dist/gen/models/V1Service.js");
  const version = /OpenAPI spec version: v(\d+\.\d+)/.exec(readFileSync(model, "utf8"))?.[1];
  expect(page).toContain(`those of Kubernetes ${version},`);
});
