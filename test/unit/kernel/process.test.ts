import { expect, test, vi } from "vitest";
import { runProcess } from "../../../src/kernel/process.ts";

const LIMITS = { timeoutMs: 10_000, maxOutputBytes: 1_000_000 };

test("runProcess gives a program its input and collects what it prints", async () => {
  const input = "gr\u00fc\u00dfe ".repeat(20_000);
  const result = await runProcess("cat", [], input, LIMITS);
  expect(result).toMatchObject({
    exitCode: 0,
    signal: undefined,
    stdout: input,
    stderr: "",
    startError: undefined,
  });
  expect([result.timedOut, result.tooMuchOutput]).toEqual([false, false]);
  expect(result.durationMs).toBeGreaterThan(0);
});

test("runProcess measures how long a program takes, with its start", async () => {
  const starting = vi.fn(() => {
    for (const until = performance.now() + 50; performance.now() < until; );
  });
  const { durationMs } = await runProcess("true", [], "", { ...LIMITS, onStart: starting });
  expect(starting).toHaveBeenCalledOnce();
  expect(durationMs).toBeGreaterThanOrEqual(50);
});

test("runProcess reports exit code and standard error, and passes arguments unchanged", async () => {
  const result = await runProcess(
    "sh",
    ["-c", 'echo "$1 $LC_ALL" >&2; exit 3', "sh", "$(id); *"],
    "unread",
    LIMITS,
  );
  expect(result).toMatchObject({ exitCode: 3, stdout: "", stderr: "$(id); * C\n" });
});

test("runProcess reports why a program cannot be started", async () => {
  const missing = await runProcess("/nonexistent/nft", [], "x", LIMITS);
  expect(missing).toMatchObject({ exitCode: undefined, startError: "ENOENT" });
  expect(await runProcess("/etc/passwd", [], "", LIMITS)).toMatchObject({ startError: "EACCES" });
  expect(await runProcess("true", ["x".repeat(200_000)], "", LIMITS)).toMatchObject({ startError: "E2BIG" });
});

test("runProcess kills a program that takes too long", async () => {
  const result = await runProcess("sleep", ["60"], "", { ...LIMITS, timeoutMs: 50 });
  expect(result).toMatchObject({ exitCode: undefined, signal: "SIGKILL", timedOut: true });
});

test("runProcess kills a program when its signal is aborted", async () => {
  const stop = new AbortController();
  const running = runProcess("sleep", ["60"], "", { ...LIMITS, signal: stop.signal });
  stop.abort();
  expect(await running).toMatchObject({
    exitCode: undefined,
    signal: "SIGKILL",
    aborted: true,
    timedOut: false,
  });
});

test("runProcess kills a program that prints too much", async () => {
  const result = await runProcess("yes", [], "", { ...LIMITS, maxOutputBytes: 10_000 });
  expect(result).toMatchObject({ tooMuchOutput: true, timedOut: false });
});

test("runProcess accepts a program that ends without reading its input", async () => {
  expect(await runProcess("true", [], "x".repeat(1_000_000), LIMITS)).toMatchObject({ exitCode: 0 });
});
