import { expect, test } from "vitest";
import { parseDrainTimeout, parseOnRemoved } from "../../../src/features/connection-life/life.ts";

test.each([
  ["1s", 1000],
  [" 60s ", 60_000],
  ["1h", 3_600_000],
  ["1m30s", 90_000],
])("a drain timeout may be %j", (text, drainTimeoutMs) => {
  expect(parseDrainTimeout(text)).toEqual({ value: { drainTimeoutMs } });
});

test.each(["", "0", "999ms", "1h1ns", "60", "-60s", "1d", "forever", "9".repeat(400)])(
  "a drain timeout may not be %j",
  (text) => {
    expect(parseDrainTimeout(text)).toEqual({
      reason: expect.stringMatching(/^must be a duration from 1s to 1h such as "60s", not "/),
    });
  },
);

test("connections to removed endpoints can only be kept or reset", () => {
  expect(parseOnRemoved(" keep ")).toEqual({ value: { onEndpointRemoved: "keep" } });
  expect(parseOnRemoved("reset")).toEqual({ value: { onEndpointRemoved: "reset" } });
  for (const text of ["", "Reset", "drop", "keep,reset"])
    expect(parseOnRemoved(text)).toEqual({ reason: `must be keep or reset, not "${text}"` });
});
