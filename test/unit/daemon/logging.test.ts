import { describe, expect, test } from "vitest";
import { createLogger, rememberingLog } from "../../../src/daemon/logging.ts";

function logged(format: "text" | "json", level: "info" | "debug" = "info") {
  const lines: string[] = [];
  return { lines, logger: createLogger(format, level, { write: (line) => lines.push(line) }) };
}

describe("the log", () => {
  test("as JSON has one line with one object for each message", () => {
    const { lines, logger } = logged("json");
    logger.warn({ service: "a/b", error: 'two\n"lines"' }, "ignored");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^[^\n]+\n$/);
    const { ts, ...rest } = JSON.parse(lines[0] ?? "");
    expect(ts).toBeGreaterThan(1_700_000_000_000);
    expect(rest).toEqual({ level: "warn", err: 'two\n"lines"', service: "a/b", msg: "ignored" });
  });

  test("has the verbosity of Kubernetes components in information, and none in errors", () => {
    const { lines, logger } = logged("json", "debug");
    logger.info({}, "synced");
    logger.debug({}, "listed");
    logger.error({ error: "no such table" }, "failed");
    expect(lines.map((line) => JSON.parse(line).v)).toEqual([0, 4, undefined]);
    expect(JSON.parse(lines[2] ?? "")).toMatchObject({ msg: "failed", err: "no such table" });
  });

  test("as text has one line for each message", () => {
    const { lines, logger } = logged("text");
    logger.error({ path: "/x/y:80", error: "two\nlines", n: 3, list: ["a"] }, "failed");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^\S+Z E failed err="two\\nlines" path=\/x\/y:80 n=3 list=\["a"\]\n$/);
  });

  test("rounds figures to three digits", () => {
    const { lines, logger } = logged("text");
    logger.info({ seconds: 0.157069580078125, sent: 1234 }, "full sync");
    expect(lines[0]).toMatch(/ full sync seconds=0\.157 sent=1234\n$/);
  });

  test.each(["text", "json"] as const)("as %s contains no control characters for terminals", (format) => {
    const { lines, logger } = logged(format);
    logger.warn(
      { service: "a\u009b31m", error: "\u001b[2J\u007f" },
      "quarantined: \u009d0;title\u009c \u202e",
    );
    expect(lines[0]).toMatch(/^\P{Cc}+\n$/u);
    expect(lines[0]).not.toContain("\u202e");
    expect(lines[0]).toContain("a\\u009b31m");
    if (format === "json") expect(JSON.parse(lines[0] ?? "")).toMatchObject({ service: "a\u009b31m" });
  });

  test("cuts a text after 4,000 characters, except for debugging", () => {
    const { lines, logger } = logged("json", "debug");
    logger.error({ error: "x".repeat(50_000) }, "y".repeat(5000));
    logger.debug({ transaction: "x".repeat(50_000) }, "sent");
    const [cut, whole] = lines.map((line) => JSON.parse(line));
    expect(cut).toMatchObject({
      err: `${"x".repeat(4000)}... (50000 characters)`,
      msg: `${"y".repeat(4000)}... (5000 characters)`,
    });
    expect(whole.transaction).toHaveLength(50_000);
  });

  test("can change its level while in use", () => {
    const { lines, logger } = logged("json");
    logger.debug({}, "unheard");
    logger.level = "debug";
    logger.debug({}, "heard");
    logger.level = "info";
    logger.debug({}, "unheard");
    expect(lines.map((line) => JSON.parse(line).msg)).toEqual(["heard"]);
  });
});

test("the recent log keeps the newest lines, up to 10,000 characters of each", () => {
  const written: string[] = [];
  const log = rememberingLog({ write: (line) => void written.push(line) }, 2);
  for (const line of ["first\n", "second\n", `${"x".repeat(50_000)}\n`]) log.write(line);
  expect(written.map(({ length }) => length)).toEqual([6, 7, 50_001]);
  expect(log.lines()).toEqual(["second\n", `${"x".repeat(10_000)}...\n`]);
});
