import { describe, expect, test } from "vitest";
import { streamLines } from "../../../src/kernel/stream-lines.ts";

describe("streamLines", () => {
  async function collect(path: string, args: readonly string[]): Promise<string[]> {
    const lines = [];
    for await (const line of streamLines(path, args)) lines.push(line);
    return lines;
  }

  test("yields the lines that a program prints", async () => {
    expect(await collect("printf", ["a\\nb b\\n"])).toEqual(["a", "b b"]);
  });

  test("leaves no timer that delays the exit if a program cannot be started", async () => {
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    const before = timers();
    for (let n = 0; n < 5; n++) await expect(collect("/no-such-directory/program", [])).rejects.toThrow();
    // A timer of another file in this process may begin or end meanwhile.
    expect(timers() - before).toBeLessThan(5);
  });

  test("throws an AppError with the program's message if it is missing or fails", async () => {
    await expect(collect("/no-such-directory/program", [])).rejects.toMatchObject({
      code: "HOST",
      message: "cannot start /no-such-directory/program (ENOENT)",
    });
    await expect(collect("ls", ["/no-such-directory"])).rejects.toMatchObject({
      code: "HOST",
      evidence: { stderr: expect.stringContaining("No such file or directory") },
    });
  });
});
