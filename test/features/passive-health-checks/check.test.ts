import { describe, expect, test } from "vitest";
import {
  checkOf,
  DEFAULT_PASSIVE_HEALTH_CHECK as DEFAULT,
  type PassiveHealthSetting,
  parsePassiveHealthCheck,
  passiveHealthText,
} from "../../../src/features/passive-health-checks/check.ts";
import { unansweredText } from "../../../src/features/passive-health-checks/suspicion.ts";
import { familyContext, servicePort } from "../../support/build.ts";

describe("the setting of passive health checks", () => {
  test.each([
    ["on", DEFAULT],
    [" off ", "off"],
    ["failures=5", { ...DEFAULT, failures: 5 }],
    ["max-ejected=100%, interval=2s", { ...DEFAULT, maxEjected: 100, intervalMs: 2000 }],
    [
      "failures=1,interval=1m,eject=5m,max-ejected=1%",
      { failures: 1, intervalMs: 60_000, ejectMs: 300_000, maxEjected: 1 },
    ],
  ])("%j is read", (text, setting) => {
    expect(parsePassiveHealthCheck(text)).toEqual({ setting });
  });

  test.each([
    ["", /^must be on, off, or a list such as .*, not ""$/],
    ["true", /^must be on, off, or a list such as .*, not "true"$/],
    ["constructor=1", /^must be on, off, or a list such as .*, not "constructor=1"$/],
    ["failure=3", /, not "failure=3": did you mean failures\?$/],
    ["failures=0", /^must have a value of 1 to 1000 for failures, not "0"$/],
    ["failures=1001", /^must have a value of 1 to 1000 for failures, not "1001"$/],
    ["failures=3;eject=4s", /^must have a value of 1 to 1000 for failures, not "3;eject=4s"$/],
    ["failures=3=9", /^must have a value of 1 to 1000 for failures, not "3=9"$/],
    ["failures=3,failures=4", /^must not have failures twice$/],
    ["interval=999ms", /^must have a value of 1s to 1m for interval, not "999ms"$/],
    ["eject=301s", /^must have a value of 1s to 5m for eject, not "301s"$/],
    ["max-ejected=50", /^must have a value of 1% to 100% for max-ejected, not "50"$/],
    ["max-ejected=101%", /^must have a value of 1% to 100% for max-ejected, not "101%"$/],
  ])("%j is refused with the part that breaks the rule", (text, reason) => {
    expect(parsePassiveHealthCheck(text)).toEqual({ reason: expect.stringMatching(reason) });
  });

  test.each<PassiveHealthSetting>(["off", DEFAULT, { ...DEFAULT, ejectMs: 1500 }])(
    "%j is read from its own text",
    (setting) => {
      expect(parsePassiveHealthCheck(passiveHealthText(setting))).toEqual({ setting });
    },
  );
});

test("a port is watched by the Service's setting, else by the default, if it is TCP", () => {
  const plain = servicePort();
  const on = servicePort({ passiveHealthCheck: DEFAULT });
  const off = servicePort({ passiveHealthCheck: "off" });
  const udp = { ...on, spec: { ...on.spec, protocol: "udp" as const } };
  const byDefault = familyContext("ip", { settings: { passiveHealthCheck: DEFAULT } });
  expect([plain, on, off, udp].map((port) => checkOf(port, familyContext("ip")))).toEqual([
    undefined,
    DEFAULT,
    undefined,
    undefined,
  ]);
  expect([plain, off].map((port) => checkOf(port, byDefault))).toEqual([DEFAULT, undefined]);
});

test.each([
  [5, 5, "refused 5 of 5 new connections"],
  [5, 7, "refused 5 of 5 new connections"],
  [4, 0, "answered none of 4 new connections"],
])("an endpoint with %d new connections and %d resets %s", (attempts, resets, text) => {
  expect(unansweredText({ attempts, resets })).toBe(text);
});
