import { describe, expect, test } from "vitest";
import {
  connectionTimeoutsText,
  KERNEL_TIMEOUTS,
  parseConnectionTimeouts,
  TIMEOUT_NAMES,
  timeoutsOfProtocol,
} from "../../../src/features/connection-timeouts/timeouts.ts";

describe("a list of connection timeouts", () => {
  test.each([
    ["tcp-established=2h", { "tcp-established": 7200 }],
    [" udp-stream = 5m , tcp-close=1s ", { "tcp-close": 1, "udp-stream": 300 }],
    ["tcp-established=120h,udp=1h", { "tcp-established": 432_000, udp: 3600 }],
    ["tcp-time-wait=1m30s", { "tcp-time-wait": 90 }],
  ])("%j is read", (text, values) => {
    expect(parseConnectionTimeouts(text)).toEqual({ values });
  });

  test("has its names in one order, whatever the text's", () => {
    const texts = ["udp=9s,tcp-established=9s", "tcp-established=9s,udp=9s"];
    expect(new Set(texts.map((text) => JSON.stringify(parseConnectionTimeouts(text)))).size).toBe(1);
  });

  test.each([
    ["", 'must be a list such as "tcp-established=2h,udp-stream=5m", not ""'],
    ["established=2h", "did you mean tcp-established?"],
    ["constructor=1s", "must be a list"],
    ["tcp-established=1h,", 'not ""'],
    ["tcp-established=1h,tcp-established=2h", "must not have tcp-established twice"],
    ["tcp-established", 'must have a value of 1s to 120h for tcp-established, not ""'],
    ["tcp-established=120h1s", 'must have a value of 1s to 120h for tcp-established, not "120h1s"'],
    ["tcp-close-wait=61m", 'must have a value of 1s to 1h for tcp-close-wait, not "61m"'],
    ["udp=0s", 'must have a value of 1s to 1h for udp, not "0s"'],
    ["udp=0", 'not "0"'],
    ["udp=-5s", 'not "-5s"'],
    ["udp=1.5s", 'not "1.5s"'],
    ["udp=1500ms", 'not "1500ms"'],
    ["udp=1d", 'not "1d"'],
    ["udp=5", 'not "5"'],
    ["udp=5s=2h", 'not "5s=2h"'],
    ["udp=99999999999999999999s", 'not "99999999999999999999s"'],
    [`udp=${"9".repeat(100_000)}s`, "..."],
    ["udp=5s\nadd rule", "not"],
    ["x".repeat(250_000), "..."],
    [Array(40_000).fill("udp=1s").join(), "must not have udp twice"],
  ])("%.60j is refused with the reason", (text, reason) => {
    const parsed = parseConnectionTimeouts(text);
    expect(parsed).toEqual({ reason: expect.stringContaining(reason) });
    expect(JSON.stringify(parsed).length).toBeLessThan(400);
  });

  test("is read from its own text", () => {
    const timeouts = { "tcp-established": 7200, "tcp-close": 61, udp: 45 };
    expect(parseConnectionTimeouts(connectionTimeoutsText(timeouts))).toEqual({ values: timeouts });
  });

  test("has values for each protocol, and none for SCTP", () => {
    const timeouts = { "tcp-established": 7200, udp: 45 };
    expect(timeoutsOfProtocol(timeouts, "tcp")).toEqual({ "tcp-established": 7200 });
    expect(timeoutsOfProtocol(timeouts, "udp")).toEqual({ udp: 45 });
    expect(timeoutsOfProtocol(timeouts, "sctp")).toBeUndefined();
    expect(timeoutsOfProtocol({ udp: 45 }, "tcp")).toBeUndefined();
    expect(timeoutsOfProtocol(undefined, "tcp")).toBeUndefined();
  });
});

test("every timeout has a default of the kernel", () => {
  expect(TIMEOUT_NAMES.filter((name) => !(KERNEL_TIMEOUTS[name] > 0))).toEqual([]);
});
