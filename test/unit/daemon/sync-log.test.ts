import { expect, test } from "vitest";
import { AppError } from "../../../src/base/errors.ts";
import { SyncLog } from "../../../src/daemon/sync-log.ts";
import type { ServicePortKey } from "../../../src/model/ids.ts";
import { renderAll, service } from "../../support/build.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { LOST_ELEMENTS, MISSING_TABLE, syncFailure, syncReport } from "../../support/sync-report.ts";

function setUp() {
  const logger = memoryLogger();
  const clock = new ManualClock();
  const log = new SyncLog(logger, clock);
  const messages = () => logger.lines.map(({ level, message }) => [level, message]);
  return { logger, log, clock, messages };
}

test("a partial sync is logged for debugging only", () => {
  const { logger, log } = setUp();
  log.synced(syncReport({ kind: "partial", deltas: [LOST_ELEMENTS] }));
  expect(logger.lines).toMatchObject([{ level: "debug", message: "synced", fields: { chains: 0, elements: 3 } }]);
});

test("a full sync without drift is logged as information", () => {
  const { log, messages } = setUp();
  log.synced(syncReport({ kind: "full", reason: "periodic" }));
  log.synced(syncReport({ kind: "full", reason: "start", unreadable: "a foreign table" }));
  expect(messages()).toEqual(Array(2).fill(["info", "full sync"]));
});

test.each([
  ["a missing table", { drift: [MISSING_TABLE] }, "table ip nft-proxy was missing"],
  ["other elements", { drift: [LOST_ELEMENTS] }, "table ip nft-proxy: 0 chains, 0 sets, 3 elements differed"],
  ["unreadable tables", { unreadable: "counter" }, "our tables could not be read and were rebuilt: counter"],
])("a full sync that repaired %s is a warning that says so", (_found, found, text) => {
  const { logger, log } = setUp();
  log.synced(syncReport({ kind: "full", reason: "drift", ...found }));
  expect(logger.lines).toMatchObject([{ level: "warn", fields: { reason: "drift", found: text } }]);
});

test("repairs that follow each other are logged 20 times in ten minutes, and the last line announces the pause", () => {
  const { logger, log } = setUp();
  const repair = (endedAt: number) =>
    log.synced(syncReport({ kind: "full", reason: "drift", drift: [MISSING_TABLE], endedAt }));
  for (let second = 0; second < 100; second++) repair(1000 * second);
  expect(logger.lines).toHaveLength(20);
  const hints = logger.lines.map(({ fields }) => fields.hint);
  expect(hints.slice(0, -1).every((hint) => hint === undefined)).toBe(true);
  expect(hints.at(-1)).toContain("not logged");
  repair(600_000);
  expect(logger.lines).toHaveLength(21);
});

test("a failed sync is logged with its evidence and hint", () => {
  const { logger, log } = setUp();
  const error = new AppError("NFT_TIMEOUT", "nft hangs", { evidence: { stderr: "..." }, hint: "wait" });
  log.failed(syncFailure(error));
  expect(logger.lines).toMatchObject([
    {
      level: "error",
      fields: { error: "nft hangs", stderr: "...", hint: "wait" },
      message: "sync failed, retrying (logged once)",
    },
  ]);
});

test("repeated failures are logged once for each reason, and counted when they end", () => {
  const { logger, log, clock } = setUp();
  const refused = new Error("nft refused the transaction");
  for (const error of [refused, refused, refused, new Error("nft hangs")]) log.failed(syncFailure(error));
  clock.advance(10_000);
  log.synced(syncReport());
  expect(logger.lines.filter(({ level }) => level !== "debug")).toEqual([
    { level: "error", fields: { error: refused.message }, message: "sync failed, retrying (logged once)" },
    { level: "error", fields: { error: "nft hangs" }, message: "sync failed, retrying (logged once)" },
    { level: "info", fields: { failed: 4, seconds: 10 }, message: "sync succeeded after failures" },
  ]);
});

test("a failed clean-up is no warning", () => {
  const { logger, log } = setUp();
  log.cleanUpFailed(new Error("busy"));
  expect(logger.lines).toMatchObject([{ level: "info", fields: { error: "busy" } }]);
});

test("a quarantined service port is named when its quarantine begins and ends", () => {
  const { log, messages } = setUp();
  const quarantined = new Map([["ip default/bad:/tcp" as ServicePortKey, "the kernel refuses its rules"]]);
  for (const each of [quarantined, quarantined, new Map()]) {
    log.synced(syncReport({ kind: "partial", quarantined: each }));
  }
  expect(messages().filter(([level]) => level !== "debug")).toEqual([
    ["error", "service port quarantined: the kernel refuses its rules"],
    ["info", "service port no longer quarantined"],
  ]);
});

test("a Service with many quarantined ports is named once, also when it exceeds its budget by more", () => {
  const { log, logger } = setUp();
  const over = (count: number) =>
    new Map(
      Array.from({ length: 5000 }, (_, i) => [
        `ip default/big:p${i}/tcp` as ServicePortKey,
        `it has ${count} of 7 elements`,
      ]),
    );
  for (const each of [over(8), over(9), over(9), new Map()]) {
    log.synced(syncReport({ kind: "partial", quarantined: each }));
  }
  const servicePort = "default/big (5000 service ports)";
  expect(logger.lines.filter(({ level }) => level !== "debug")).toEqual([
    { level: "error", fields: { servicePort }, message: "service port quarantined: it has 8 of 7 elements" },
    { level: "info", fields: { servicePort }, message: "service port no longer quarantined" },
  ]);
});

test("a conflict is named once", () => {
  const { logger, log } = setUp();
  const [old, young] = [service({ name: "old", createdAt: 1 }), service({ name: "young", createdAt: 2 })];
  const { state } = renderAll({ services: [old, young] });
  for (let n = 0; n < 2; n++) log.synced(syncReport({ state }));
  expect(logger.lines.filter(({ level }) => level === "warn")).toMatchObject([
    { fields: { frontend: "10.96.0.10:80/tcp", winner: "default/old:/tcp", loser: "default/young:/tcp" } },
  ]);
});

test("an excluded family is named when its exclusion begins and ends", () => {
  const { logger, log } = setUp();
  const excludedFamilies = new Map([["ip6", "not supported"] as const]);
  for (const families of [excludedFamilies, excludedFamilies, new Map()]) {
    log.synced(syncReport({ kind: "partial", excludedFamilies: families }));
  }
  expect(logger.lines.filter(({ level }) => level !== "debug").map(({ level, fields }) => [level, fields])).toEqual([
    ["error", { family: "IPv6", error: "not supported" }],
    ["info", { family: "IPv6" }],
  ]);
});
