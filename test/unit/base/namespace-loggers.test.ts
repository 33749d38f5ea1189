import { expect, test } from "vitest";
import { NamespaceLoggers } from "../../../src/base/namespace-loggers.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

test("lines about the objects of a namespace are limited for each level, and the last one says so", async () => {
  const clock = new ManualClock();
  const logger = memoryLogger();
  const loggers = new NamespaceLoggers(clock, logger);
  for (let n = 0; n < 100; n++) loggers.of("shop").info({ n }, "listening");
  loggers.of("shop").warn({}, "cannot listen");
  loggers.of("bank").info({}, "listening");
  const shown = () => logger.lines.filter(({ level }) => level !== "debug");
  expect(shown()).toHaveLength(22);
  expect(shown()[18]?.fields).toEqual({ n: 18 });
  expect(shown()[19]?.fields).toEqual({ n: 19, limit: expect.stringContaining("for a minute") });
  expect(logger.lines).toHaveLength(102);
  await clock.advance(60_000);
  loggers.of("shop").info({}, "listening");
  expect(shown()).toHaveLength(23);
  expect(shown()[22]?.fields).toEqual({ linesLeftOut: 80, limit: expect.any(String) });
});

test("a line that is not written is not made", () => {
  const logger = { ...memoryLogger(), isLevelEnabled: () => false };
  const loggers = new NamespaceLoggers(new ManualClock(), logger);
  let made = 0;
  for (let n = 0; n < 100; n++) loggers.line("error", "shop", () => [{ n: made++ }, "quarantined"]);
  expect(made).toBe(20);
  expect(logger.lines).toHaveLength(20);
});
