import { describe, expect, test } from "vitest";
import {
  type ClientLimits,
  clientLimitsText,
  parseMaxConnections,
  parseNewConnections,
  rateNumber,
  refillSeconds,
} from "../../../src/features/client-limits/limits.ts";

describe("a limit of connections at a time", () => {
  test.each([
    ["1", 1],
    [" 100 ", 100],
    ["1000", 1000],
    ["007", 7],
  ])("may be %j", (text, connections) => {
    expect(parseMaxConnections(text)).toEqual({ value: { connections } });
  });

  test.each(["", "0", "1001", "-1", "1.5", "1e2", "ten", "9".repeat(400), "1\n2"])(
    "may not be %j",
    (text) => {
      expect(parseMaxConnections(text)).toEqual({
        reason: expect.stringMatching(/^must be a number from 1 to 1000, not "/),
      });
    },
  );
});

describe("a limit of new connections", () => {
  test.each([
    ["20/second", { amount: 20, per: "second", burst: 20 }],
    ["20/minute burst 40", { amount: 20, per: "minute", burst: 40 }],
    [" 100/hour  burst  100 ", { amount: 100, per: "hour", burst: 100 }],
    ["1000/second burst 1000", { amount: 1000, per: "second", burst: 1000 }],
  ])("may be %j", (text, rate) => {
    expect(parseNewConnections(text)).toEqual({ value: { rate } });
  });

  test.each([
    ["", /^must be a rate such as/],
    ["20", /^must be a rate such as/],
    ["20/day", /^must be a rate such as/],
    ["20/second burst", /^must be a rate such as/],
    ["20/second burst 5 packets", /^must be a rate such as/],
    [`${"9".repeat(300)}/second`, /^must be a rate such as/],
    ["0/second", /^must have numbers from 1 to 1000,/],
    ["1/second burst 0", /^must have numbers from 1 to 1000,/],
    ["1001/second", /^must have numbers from 1 to 1000,/],
    ["10/hour burst 11", /^must have a burst that is refilled within an hour/],
  ])("may not be %j", (text, reason) => {
    const parsed = parseNewConnections(text);
    expect(parsed).toEqual({ reason: expect.stringMatching(reason) });
    expect(JSON.stringify(parsed).length).toBeLessThan(250);
  });

  test("has a number of its own below 2^31, and the time until its burst is whole again", () => {
    const rates = ["1/second burst 2", "2/second burst 1", "1/minute burst 2", "1000/hour burst 1000"].map(
      (text) => {
        const parsed = parseNewConnections(text);
        if ("reason" in parsed) throw new Error(parsed.reason);
        return (parsed.value as Required<ClientLimits>).rate;
      },
    );
    const numbers = rates.map(rateNumber);
    expect(new Set(numbers).size).toBe(rates.length);
    expect(Math.max(...numbers)).toBeLessThan(2 ** 31);
    expect(rates.map(refillSeconds)).toEqual([2, 1, 120, 3600]);
  });
});

test("limits are described in words", () => {
  const rate = { amount: 20, per: "second", burst: 40 } as const;
  expect(clientLimitsText({ connections: 100 })).toBe("100 connections at a time");
  expect(clientLimitsText({ rate })).toBe("20 new connections per second (burst 40)");
  expect(clientLimitsText({ connections: 100, rate })).toBe(
    "100 connections at a time and 20 new ones per second (burst 40)",
  );
});
