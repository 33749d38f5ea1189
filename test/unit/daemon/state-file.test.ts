import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writePrivateFile } from "../../../src/daemon/state-file.ts";

test("a private file is its owner's alone, also where there was one for all, and a directory that is missing is named", () => {
  const directory = mkdtempSync(join(tmpdir(), "private-"));
  try {
    const [fresh, known] = [join(directory, "fresh"), join(directory, "known")];
    writeFileSync(known, "a longer text than the new one");
    chmodSync(known, 0o644);
    for (const path of [fresh, known]) {
      writePrivateFile(path, "secret");
      expect([readFileSync(path, "utf8"), statSync(path).mode & 0o777]).toEqual(["secret", 0o600]);
    }
    expect(() => writePrivateFile("/dev/null", "secret")).not.toThrow();
    expect(() => writePrivateFile(join(directory, "none", "file"), "secret", "try -")).toThrow(
      expect.objectContaining({ code: "HOST", message: expect.stringContaining("no such file"), hint: "try -" }),
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
});
