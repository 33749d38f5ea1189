import { describe, expect, test } from "vitest";
import { ObjectProblemLog } from "../../../src/kube/object-problem-log.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

describe("problems of objects", () => {
  const setUp = () => {
    const logger = memoryLogger();
    const clock = new ManualClock();
    const log = new ObjectProblemLog(clock, logger, "ignored");
    const add = (object: string, problem = "no number") => log.add(object, problem, { object, problem });
    return { logger, clock, log, add };
  };

  test("are logged once however often the object is updated, and again when they change or come back", () => {
    const { logger, log, add } = setUp();
    for (let update = 0; update < 5; update++) add("Service shop/web");
    add("Service shop/web", "no port");
    add("Service shop/web");
    log.end("Service shop/web");
    add("Service shop/web");
    expect(logger.lines.map(({ fields }) => fields.problem)).toEqual([
      "no number",
      "no port",
      "no number",
      "no number",
    ]);
  });

  test("of one namespace are logged 20 at once, the last with a hint, and those of others beside them", () => {
    const { logger, clock, add } = setUp();
    for (let number = 0; number < 100; number++) add(`Service tenant/web-${number}`);
    for (const object of ["Service shop/web", "Node node-1"]) add(object);
    const warnings = () => logger.lines.filter(({ level }) => level === "warn");
    expect(warnings()).toHaveLength(22);
    expect(warnings().flatMap(({ fields }, index) => (fields.limit === undefined ? [] : [index]))).toEqual([
      19,
    ]);
    clock.advance(60_000);
    for (let number = 100; number < 110; number++) add(`Service tenant/web-${number}`);
    expect(warnings()).toHaveLength(23);
  });

  test("are remembered for the 1,000 objects reported last", () => {
    const { logger, clock, add } = setUp();
    const namespaces = (count: number, from = 0) =>
      Array.from({ length: count }, (_, i) => `Service n${from + i}/web`);
    for (const object of namespaces(1001)) {
      add(object);
      clock.advance(60_000);
    }
    expect(logger.lines).toHaveLength(1001);
    for (const object of namespaces(1000, 1)) add(object);
    expect(logger.lines).toHaveLength(1001);
    add("Service n0/web");
    expect(logger.lines).toHaveLength(1002);
  });
});
