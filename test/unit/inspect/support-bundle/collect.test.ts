import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { archiveOf } from "../../../../src/inspect/support-bundle/collect.ts";

test("tar unpacks the archive of a support bundle with its names, contents, modes and times", async () => {
  const directory = mkdtempSync(join(tmpdir(), "archive-"));
  const files = [
    { name: "bundle/empty.txt", text: "" },
    { name: "bundle/block.txt", text: "x".repeat(512) },
    { name: "bundle/text.txt", text: "grüße\n".repeat(1000) },
  ];
  try {
    writeFileSync(join(directory, "a.tar.gz"), archiveOf(files, 1_700_000_000_000));
    await execa("tar", ["-xzf", "a.tar.gz"], { cwd: directory });
    for (const { name, text } of files) {
      const path = join(directory, name);
      expect(readFileSync(path, "utf8")).toBe(text);
      expect({ mode: statSync(path).mode & 0o777, time: statSync(path).mtimeMs }).toEqual({
        mode: 0o600,
        time: 1_700_000_000_000,
      });
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
});
