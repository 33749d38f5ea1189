import { describe, expect, test } from "vitest";
import { FailureLog } from "../../../src/base/failure-log.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

function setUp() {
  const logger = memoryLogger();
  const clock = new ManualClock();
  const log = new FailureLog({ logger, clock }, "read");
  const lines = () =>
    logger.lines.filter(({ level }) => level !== "debug").map((line) => Object.values(line));
  return { log, logger, clock, lines };
}

describe("FailureLog", () => {
  test("logs each reason once until a success, and repetitions only for debugging", () => {
    const { log, logger, lines } = setUp();
    for (const reason of ["a", "a", "b", "a"]) log.add(reason, { hint: "wait" });
    expect(lines()).toEqual([
      ["warn", { error: "a", hint: "wait" }, "cannot read, retrying (logged once)"],
      ["warn", { error: "b", hint: "wait" }, "cannot read, retrying (logged once)"],
    ]);
    expect(logger.lines.filter(({ level }) => level === "debug").map(({ fields }) => fields.error)).toEqual([
      "a",
      "a",
    ]);
  });

  test("counts and times the failures at the first success, and logs the same reason again after it", () => {
    const { log, clock, lines } = setUp();
    log.add("a");
    clock.advance(2499.6);
    log.add("a");
    expect(log.isFailing).toBe(true);
    log.end();
    expect(log.isFailing).toBe(false);
    log.end();
    log.add("a");
    expect(lines()).toEqual([
      ["warn", { error: "a" }, "cannot read, retrying (logged once)"],
      ["info", { failed: 2, seconds: 2.5 }, "can read again"],
      ["warn", { error: "a" }, "cannot read, retrying (logged once)"],
    ]);
  });

  test("logs at most ten reasons until a success", () => {
    const { log, lines } = setUp();
    for (let n = 0; n < 100; n++) log.add(`reason ${n}`);
    log.end();
    expect(lines()).toHaveLength(11);
    expect(lines().at(-1)).toEqual(["info", { failed: 100, seconds: 0 }, "can read again"]);
  });
});
