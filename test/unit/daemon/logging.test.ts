import { describe, expect, test } from "vitest";
import { createLogger, RecentLog } from "../../../src/daemon/logging.ts";

function logged(format: "text" | "json", level: "info" | "debug" = "info") {
  const lines: string[] = [];
  return { lines, logger: createLogger(format, level, { write: (line) => lines.push(line) }) };
}

describe("the log", () => {
  test("as JSON has one object in one line for each message", () => {
    const { lines, logger } = logged("json");
    logger.warn({ service: "a/b", error: 'two\n"lines"' }, "ignored");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^[^\n]+\n$/);
    const { ts, ...rest } = JSON.parse(lines[0] ?? "");
    expect(ts).toBeGreaterThan(1_700_000_000_000);
    expect(rest).toEqual({ level: "warn", err: 'two\n"lines"', service: "a/b", msg: "ignored" });
  });

  test("has the verbosity of Kubernetes components for information, and none for errors", () => {
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

  test("changes its level while in use", () => {
    const { lines, logger } = logged("json");
    logger.debug({}, "unheard");
    logger.level = "debug";
    logger.debug({}, "heard");
    logger.level = "info";
    logger.debug({}, "unheard");
    expect(lines.map((line) => JSON.parse(line).msg)).toEqual(["heard"]);
  });
});

test("the recent log keeps the newest lines, each to 10,000 characters", () => {
  const written: string[] = [];
  const log = new RecentLog({ write: (line) => void written.push(line) }, 2);
  for (const line of ["first\n", "second\n", `${"x".repeat(50_000)}\n`]) log.write(line);
  expect(written.map(({ length }) => length)).toEqual([6, 7, 50_001]);
  expect(log.lines()).toEqual(["second\n", `${"x".repeat(10_000)}...\n`]);
});
