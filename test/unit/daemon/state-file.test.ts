import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { writePrivateFile, writeStateFile } from "../../../src/daemon/state-file.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

test("a private file is accessible to its owner only, even if it replaces a public one, and a missing directory is named", () => {
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
      expect.objectContaining({
        code: "HOST",
        message: expect.stringContaining("no such file"),
        hint: "try -",
      }),
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("a private file is never written through a symbolic link", () => {
  const directory = mkdtempSync(join(tmpdir(), "private-"));
  try {
    const [victim, link] = [join(directory, "victim"), join(directory, "link")];
    writeFileSync(victim, "precious");
    symlinkSync(victim, link);
    expect(() => writePrivateFile(link, "secret")).toThrow(/^cannot write .*link: it is a symbolic link$/);
    expect(readFileSync(victim, "utf8")).toBe("precious");
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("the state is written to a new file for its owner only, and never over an existing file", () => {
  const directory = mkdtempSync(join(tmpdir(), "private-"));
  vi.stubEnv("TMPDIR", directory);
  vi.spyOn(Date, "now").mockReturnValue(1);
  try {
    const logger = memoryLogger();
    for (let n = 0; n < 2; n++) writeStateFile({ n }, logger);
    const [written, refused] = logger.lines;
    const path = String(written?.fields.path);
    expect([readFileSync(path, "utf8"), statSync(path).mode & 0o777]).toEqual(['{"n":0}\n', 0o600]);
    expect(refused).toMatchObject({ level: "error", fields: { error: expect.stringContaining("exists") } });
  } finally {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
    rmSync(directory, { recursive: true });
  }
});
