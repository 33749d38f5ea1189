import { expect, test } from "vitest";
import { AppError } from "../../../src/base/errors.ts";
import { syncLog } from "../../../src/daemon/sync-log.ts";
import type { ServicePortKey } from "../../../src/model/ids.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { cacheOf, named, port, renderAll, service, testNodeContext } from "../../support/build.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import {
  LOST_ELEMENTS,
  MISSING_TABLE,
  syncFailure,
  syncReport,
  syncReporter,
} from "../../support/sync-report.ts";

function setUp() {
  const logger = memoryLogger();
  const clock = new ManualClock();
  const log = syncLog(logger, clock);
  const messages = () => logger.lines.map(({ level, message }) => [level, message]);
  return { logger, log, clock, messages };
}

test("a partial sync is logged for debugging only", () => {
  const { logger, log } = setUp();
  log.synced(syncReport({ kind: "partial", deltas: [LOST_ELEMENTS] }));
  expect(logger.lines).toMatchObject([
    { level: "debug", message: "synced", fields: { chains: 0, elements: 6 } },
  ]);
});

test("a full sync without drift is logged as information", () => {
  const { log, messages } = setUp();
  log.synced(syncReport({ kind: "full", reason: "periodic" }));
  log.synced(syncReport({ kind: "full", reason: "start", unreadable: "a foreign table" }));
  expect(messages()).toEqual(Array(2).fill(["info", "full sync"]));
});

test.each([
  ["a missing table", { drift: [MISSING_TABLE] }, "table ip nft-proxy was missing"],
  ["other elements", { drift: [LOST_ELEMENTS] }, "table ip nft-proxy: 0 chains, 0 sets, 6 elements differed"],
  ["unreadable tables", { unreadable: "counter" }, "our tables could not be read and were rebuilt: counter"],
])("a full sync that repaired %s is logged as a warning that names it", (_found, found, text) => {
  const { logger, log } = setUp();
  log.synced(syncReport({ kind: "full", reason: "drift", ...found }));
  expect(logger.lines).toMatchObject([{ level: "warn", fields: { reason: "drift", found: text } }]);
});

test("repeated repairs are logged 20 times at once and then every minute, with the number of the others", () => {
  const { logger, log, clock } = setUp();
  // The wall clock is set back meanwhile, which is no reason to log less.
  const repair = () => {
    const endedAt = -clock.monotonic();
    log.synced(syncReport({ kind: "full", reason: "drift", drift: [MISSING_TABLE], endedAt }));
  };
  for (let second = 0; second < 100; second++) {
    repair();
    clock.advance(1000);
  }
  const warnings = () => logger.lines.filter(({ level }) => level === "warn");
  expect(warnings()).toHaveLength(21);
  expect(warnings()[19]?.fields.limit).toContain("only logged for debugging");
  expect(warnings()[20]?.fields.linesLeftOut).toBe(40);
});

test("a failed sync is logged with its evidence and hint", () => {
  const { logger, log } = setUp();
  const error = new AppError("NFT_TIMEOUT", "nft hangs", { evidence: { stderr: "..." }, hint: "wait" });
  log.failed(syncFailure(error));
  expect(logger.lines).toMatchObject([
    {
      level: "error",
      fields: { error: "nft hangs", stderr: "...", hint: "wait" },
      message: "cannot sync, retrying (logged once)",
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
    { level: "error", fields: { error: refused.message }, message: "cannot sync, retrying (logged once)" },
    { level: "error", fields: { error: "nft hangs" }, message: "cannot sync, retrying (logged once)" },
    { level: "info", fields: { failed: 4, seconds: 10 }, message: "synced after failures" },
  ]);
});

test("a failed clean-up is not logged as a warning", () => {
  const { logger, log } = setUp();
  log.cleanUpFailed(new Error("busy"));
  expect(logger.lines).toMatchObject([{ level: "info", fields: { error: "busy" } }]);
});

test("a quarantined service port is named when its quarantine begins and ends", () => {
  const { log, messages } = setUp();
  const quarantined = new Map([["ip default/bad/tcp" as ServicePortKey, "the kernel refuses its rules"]]);
  const report = syncReporter();
  for (const each of [quarantined, quarantined, new Map()]) {
    log.synced(report({ kind: "partial", quarantined: each }));
  }
  expect(messages().filter(([level]) => level !== "debug")).toEqual([
    ["error", "service port quarantined: the kernel refuses its rules"],
    ["info", "service port no longer quarantined"],
  ]);
});

test("a Service with many quarantined ports is named once, even if it later exceeds its budget by more", () => {
  const { log, logger } = setUp();
  const over = (count: number) =>
    new Map(
      Array.from({ length: 5000 }, (_, i) => [
        `ip default/big:p${i}/tcp` as ServicePortKey,
        `it has ${count} of 7 elements`,
      ]),
    );
  const report = syncReporter();
  for (const each of [over(8), over(9), over(9), new Map()]) {
    log.synced(report({ kind: "partial", quarantined: each }));
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
    {
      fields: {
        service: "default/young",
        frontends: "10.96.0.10:80/tcp",
        losers: "default/young/tcp",
        winners: "default/old/tcp",
      },
    },
  ]);
});

test("a Service that loses many addresses and ports is named once with some of them, and again when it gets them", () => {
  const { logger, log } = setUp();
  const ports = Array.from({ length: 400 }, (_, i) => port(1000 + i, { name: `p${i}` }));
  const both = (["old", "young"] as const).map((name, createdAt) => service({ name, createdAt, ports }));
  const cache = cacheOf({ services: both });
  const renderer = new Renderer(cache, testNodeContext());
  for (const change of [() => {}, () => cache.deleteService(named("old"))]) {
    change();
    renderer.update(cache.takeDirty());
    log.synced(syncReport({ state: renderer.state }));
  }
  const frontends =
    "10.96.0.10:1000/tcp, 10.96.0.10:1001/tcp, 10.96.0.10:1002/tcp, 10.96.0.10:1003/tcp, 10.96.0.10:1004/tcp";
  expect(logger.lines.filter(({ level }) => level !== "debug")).toEqual([
    {
      level: "warn",
      fields: {
        service: "default/young",
        frontends: `${frontends} and 395 more`,
        losers: "default/young",
        winners: "default/old",
      },
      message: "conflict: other Services have addresses and ports of this one",
    },
    {
      level: "info",
      fields: { service: "default/young", frontends: `${frontends} and 395 more` },
      message: "conflict ended",
    },
  ]);
});

test("conflicts and quarantined Services of one namespace are logged 20 at a time, so that others have room", () => {
  const { logger, log, clock } = setUp();
  const numbered = (namespace: string, index: number) =>
    service({ name: `${namespace}/s${index}`, createdAt: index, clusterIPs: ["10.96.0.10"] });
  const services = [...Array.from({ length: 200 }, (_, i) => numbered("tenant", i)), numbered("zoo", 200)];
  const { state } = renderAll({ services });
  const key = (name: string) => `ip ${name}/tcp` as ServicePortKey;
  log.synced(
    syncReport({ state, quarantined: new Map(services.map(({ name }) => [key(name), "too much"])) }),
  );
  const lines = (level: string) => logger.lines.filter((line) => line.level === level);
  const [warnings, errors] = [lines("warn"), lines("error")];
  expect(warnings.filter(({ fields }) => String(fields.service).startsWith("tenant/"))).toHaveLength(20);
  expect(warnings.at(-1)?.fields).toMatchObject({ service: "zoo/s200" });
  expect(errors.filter(({ fields }) => String(fields.servicePort).includes("tenant/"))).toHaveLength(20);
  expect(errors.at(-1)?.fields).toEqual({ servicePort: key("zoo/s200") });
  clock.advance(60_000);
  log.synced(syncReport({ state: renderAll({ services }).state }));
  const later = lines("warn").slice(warnings.length);
  expect(later.map(({ fields }) => fields.linesLeftOut)).toEqual([179, undefined]);
});

test("an excluded family is named when its exclusion begins and ends", () => {
  const { logger, log } = setUp();
  const excludedFamilies = new Map([["ip6", "not supported"] as const]);
  for (const families of [excludedFamilies, excludedFamilies, new Map()]) {
    log.synced(syncReport({ kind: "partial", excludedFamilies: families }));
  }
  expect(
    logger.lines.filter(({ level }) => level !== "debug").map(({ level, fields }) => [level, fields]),
  ).toEqual([
    ["error", { family: "IPv6", error: "not supported" }],
    ["info", { family: "IPv6" }],
  ]);
});

test("Services without their session affinity are named once, and again when they have it", () => {
  const { logger, log } = setUp();
  const sticky = ["a/old", "b/new"].map((name, i) =>
    service({ name, createdAt: i, clusterIPs: [`10.96.0.1${i}`], affinitySeconds: 60 }),
  );
  const report = syncReporter();
  for (const services of [sticky, sticky, sticky.slice(1)]) {
    const { state } = renderAll({ services }, testNodeContext({ maxStickyPorts: 1 }));
    log.synced(report({ kind: "partial", state }));
  }
  const fields = { servicePort: "ip b/new/tcp" };
  const reason = "all Services together can have 1 ports with session affinity in a family";
  expect(logger.lines.filter(({ level }) => level !== "debug")).toEqual([
    {
      level: "warn",
      fields,
      message: `served without session affinity: ${reason}, and this one has 1, 1 more than older ones leave`,
    },
    { level: "info", fields, message: "served with session affinity again" },
  ]);
});
