import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  ageText,
  durationText,
  durationWords,
  formatDuration,
  parseDuration,
} from "../../../src/base/duration.ts";

const HOUR = 3_600_000;

describe("parseDuration", () => {
  it.each([
    ["0", 0],
    ["-0", 0],
    ["0s", 0],
    ["5s", 5_000],
    ["+5s", 5_000],
    ["-5s", -5_000],
    ["1h30m", 1.5 * HOUR],
    ["15m0s", 900_000],
    ["1.5s", 1_500],
    [".5s", 500],
    ["1.s", 1_000],
    ["250ms", 250],
    ["1m1ms", 60_001],
    ["3us", 0.003],
    ["3\u00b5s", 0.003],
    ["3\u03bcs", 0.003],
    ["7ns", 0.000_007],
    ["0.1s0.2s", 300],
    ["2h1h", 3 * HOUR],
    ["2562047h", 2_562_047 * HOUR],
    ["2562047h47m16.854775807s", 2 ** 63 / 1e6],
    ["36002.7h", 129_609_720_000],
    ["2502h0.5ms", 2502 * HOUR + 0.5],
    ["1.0000000019s", 1_000.000_002],
    ["1.ms.5us", 1.000_5],
  ])("reads %s as %d ms", (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  it.each([
    "",
    "5",
    "s",
    ".s",
    "5 s",
    " 5s",
    "5s ",
    "5S",
    "1d",
    "1h-5m",
    "--5s",
    "1e3s",
    "0x1s",
    "1,5s",
    "5s\n",
    "2562048h",
    "2562047h47m16.857s",
    `${"9".repeat(40)}s`,
  ])("refuses %j", (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });
});

describe("formatDuration", () => {
  it.each([
    [0, "0s"],
    [1, "1ms"],
    [1.5, "1.5ms"],
    [0.003, "3\u00b5s"],
    [0.000_007, "7ns"],
    [1_000, "1s"],
    [1_500, "1.5s"],
    [60_000, "1m0s"],
    [900_000, "15m0s"],
    [HOUR, "1h0m0s"],
    [24 * HOUR + 61_001, "24h1m1.001s"],
    [-90_000, "-1m30s"],
  ])("writes %d as Go does: %s", (milliseconds, text) => {
    expect(formatDuration(milliseconds)).toBe(text);
  });

  it("writes a text that parseDuration reads as the same duration", () => {
    const nanoseconds = fc.integer({ min: -1e13, max: 1e13 }).map((count) => count / 1e6);
    const milliseconds = fc.integer({ min: -1e12, max: 1e12 });
    fc.assert(
      fc.property(fc.oneof(nanoseconds, milliseconds), (duration) => {
        expect(parseDuration(formatDuration(duration))).toBe(duration === 0 ? 0 : duration);
      }),
    );
  });
});

test.each([
  [600, "10m"],
  [10800, "3h"],
  [86400, "1d"],
  [93784, "1d2h3m4s"],
  [0, "0s"],
])("durationText prints %d s as %s", (seconds, text) => {
  expect(durationText(seconds)).toBe(text);
});

test.each([
  [-1, "0s"],
  [45.9, "45s"],
  [312, "5m12s"],
  [7500, "2h5m"],
  [259_200, "3d"],
  [259_500, "3d"],
])("ageText prints the two largest units of %d s: %s", (seconds, text) => {
  expect(ageText(seconds)).toBe(text);
});

test.each([
  [-5, "0 s"],
  [119_999, "119 s"],
  [120_000, "2 min"],
  [7_200_000, "2 h"],
  [172_800_000, "2 d"],
])("durationWords writes %s ms as %s", (milliseconds, words) => {
  expect(durationWords(milliseconds)).toBe(words);
});
