import { existsSync } from "node:fs";
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { followLines } from "../../../src/kernel/running-programs.ts";

describe("followLines", () => {
  test("passes on the lines of a program as they arrive, until it is stopped", async () => {
    const lines: string[] = [];
    const program = followLines(
      "sh",
      ["-c", "echo $$ $NFT_PROXY_STARTED_BY; printf 'a\\nb'; exec sleep 60"],
      (line) => lines.push(line),
    );
    await expect.poll(() => lines).toEqual([`${program.pid} ${process.pid}`, "a"]);
    program.stop();
    program.stop();
    expect(await program.ended).toBeUndefined();
  });

  test.each([
    ["ends by itself", "sh", ["-c", "echo no >&2; exit 0"], "sh failed: no"],
    ["ends without a word", "sh", ["-c", "exit 3"], "sh failed: exit code 3"],
    ["cannot be started", "/nonexistent/nft", [], "cannot start /nonexistent/nft (ENOENT)"],
    ["is below a file", "/etc/passwd/nft", [], "cannot start /etc/passwd/nft (ENOTDIR)"],
  ])("rejects when the program %s", async (_what, path, args, message) => {
    await expect(followLines(path, args, () => {}).ended).rejects.toMatchObject({ code: "HOST", message });
  });

  test("rejects at once when a line cannot be handled", async () => {
    const program = followLines("sh", ["-c", "echo a; exec sleep 10"], () => {
      throw new Error("unhandled line");
    });
    await expect(program.ended).rejects.toThrow("unhandled line");
    expect(existsSync(`/proc/${program.pid}`)).toBe(true);
    program.stop();
  });

  test("says what to do if the program lacks a right", async () => {
    const denied = followLines("sh", ["-c", "echo 'netlink: Operation not permitted' >&2; exit 1"], () => {});
    await expect(denied.ended).rejects.toMatchObject({ hint: "run as root or with CAP_NET_ADMIN" });
  });

  test.each([
    ["exits", "process.exit()", undefined],
    ["is ended by SIGTERM", 'process.kill(process.pid, "SIGTERM")', "SIGTERM"],
  ])("kills the program when the process that follows it %s", async (_how, end, signal) => {
    const script = `import { followLines } from "./src/kernel/running-programs.ts";
      const { pid } = followLines("sh", ["-c", "echo on; exec sleep 60"], () => { console.log(pid); ${end} });`;
    const result = await execa("node", ["--import", "tsx", "--input-type=module", "-e", script], {
      reject: false,
    });
    expect([result.signal, result.stderr]).toEqual([signal, ""]);
    const pid = Number(result.stdout);
    expect(pid).toBeGreaterThan(0);
    await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
  });
});
