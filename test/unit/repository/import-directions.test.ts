import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

/** The complaints of scripts/import-directions.mjs about these sources, text by path. */
function complaints(sources: Readonly<Record<string, string>>): { status: number | null; text: string } {
  const root = mkdtempSync(join(tmpdir(), "imports-"));
  for (const [path, text] of Object.entries(sources)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const { status, stderr } = spawnSync("node", ["scripts/import-directions.mjs", root], { encoding: "utf8" });
  rmSync(root, { recursive: true });
  return { status, text: stderr };
}

test("files that import each other's types are a circle", () => {
  const sources = {
    "model/a.ts": 'import { b } from "./b.ts";\nexport interface A {}\n',
    "model/b.ts": 'import {\n  type C,\n} from "./c.ts";\n',
    "model/c.ts": 'import type { A } from "./a.ts";\n',
  };
  expect(complaints(sources)).toEqual({
    status: 1,
    text: `circle of imports: model/a.ts -> model/b.ts -> model/c.ts -> model/a.ts
  model/a.ts imports model/b.ts
  model/b.ts imports model/c.ts
  model/c.ts imports model/a.ts
`,
  });
  expect(complaints({ ...sources, "model/c.ts": "" })).toEqual({ status: 0, text: "" });
});

test("folders whose files import each other's are a circle", () => {
  const sources = {
    "kube/files/a.ts": 'import "../decode/b.ts";\n',
    "kube/decode/b.ts": "",
    "kube/decode/c.ts": 'import type { D } from "../files/d.ts";\n',
    "kube/files/d.ts": "",
  };
  expect(complaints(sources).text).toContain("circle of imports: kube/decode -> kube/files -> kube/decode\n");
});

test("an import from a layer above is refused", () => {
  const sources = { "model/a.ts": 'import type { B } from "../kube/b.ts";\n', "kube/b.ts": "" };
  expect(complaints(sources).text).toContain("model/a.ts imports kube, and may import base\n");
});
