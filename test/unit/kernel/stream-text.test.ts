import { describe, expect, test } from "vitest";
import { streamText } from "../../../src/kernel/stream-lines.ts";

async function collect(...call: Parameters<typeof streamText>): Promise<string> {
  let text = "";
  for await (const piece of streamText(...call)) text += piece;
  return text;
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe("streamText", () => {
  test("yields all output of a program, in pieces of whole characters", async () => {
    const text = await collect("sh", ["-c", "i=0; while [ $i -lt 20000 ]; do echo größe; i=$((i+1)); done"]);
    expect(text).toBe("größe\n".repeat(20_000));
  });

  test("waits for the end of a program that closes its output early", async () => {
    expect(await collect("sh", ["-c", "echo all; exec >&-; sleep 0.2"])).toBe("all\n");
    await expect(collect("sh", ["-c", "exec >&-; sleep 0.2; exit 3"])).rejects.toThrow(
      "sh failed: exit code 3",
    );
  });

  test.each([
    ["throws the words of a program that fails", "sh", ["-c", "echo no >&2; exit 3"], "sh failed: no"],
    ["throws the exit code of a program that says nothing", "sh", ["-c", "exit 3"], "sh failed: exit code 3"],
    ["kills a program that takes too long", "sleep", ["60"], "sleep failed: it took too long"],
    [
      "throws the reason for a program that cannot be started",
      "/etc/passwd",
      [],
      "cannot start /etc/passwd (EACCES)",
    ],
  ])("%s", async (_what, path, args, message) => {
    const timeout = path === "sleep" ? 50 : 10_000;
    await expect(collect(path, args, timeout)).rejects.toMatchObject({ code: "HOST", message });
  });

  test("says what to do if a program lacks a right", async () => {
    const denied = collect("sh", ["-c", "echo 'Operation failed: sorry, you must be root' >&2; exit 1"]);
    await expect(denied).rejects.toMatchObject({ hint: "run as root or with CAP_NET_ADMIN" });
    await expect(collect("sh", ["-c", "exit 1"])).rejects.toMatchObject({ hint: undefined });
  });

  test("kills a program whose output is no longer read", async () => {
    const pieces = streamText("sh", ["-c", "echo $$; exec sleep 60"])[Symbol.asyncIterator]();
    const pid = Number.parseInt(String((await pieces.next()).value), 10);
    await pieces.return?.();
    await expect.poll(() => isRunning(pid)).toBe(false);
  });
});
