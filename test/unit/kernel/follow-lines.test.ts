import { describe, expect, test } from "vitest";
import { followLines } from "../../../src/kernel/stream-lines.ts";

describe("followLines", () => {
  test("hands over the lines of a program as they come, until it is stopped", async () => {
    const lines: string[] = [];
    const program = followLines("sh", ["-c", "echo $$ $NFT_PROXY_FOLLOWER; printf 'a\\nb'; exec sleep 60"], (line) =>
      lines.push(line),
    );
    await expect.poll(() => lines).toEqual([`${program.pid} ${process.pid}`, "a"]);
    program.stop();
    program.stop();
    expect(await program.ended).toBeUndefined();
  });

  test.each([
    ["ends by itself", "sh", ["-c", "echo no >&2; exit 0"], "sh failed: no"],
    ["cannot be started", "/nonexistent/nft", [], "cannot start /nonexistent/nft (ENOENT)"],
  ])("rejects when the program %s", async (_what, path, args, message) => {
    await expect(followLines(path, args, () => {}).ended).rejects.toMatchObject({ code: "HOST", message });
  });

  test("kills the program when this process exits, and keeps no listener after its end", async () => {
    const before = process.listeners("exit");
    const { ended } = followLines("sleep", ["60"], () => {});
    const added = process.listeners("exit").filter((listener) => !before.includes(listener));
    expect(added).toHaveLength(1);
    added[0]?.call(process, 0);
    await expect(ended).rejects.toMatchObject({ end: { signal: "SIGKILL" } });
    expect(process.listeners("exit")).toEqual(before);
  });
});
