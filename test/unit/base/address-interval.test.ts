import { expect, test } from "vitest";
import { intervalText, joinIntervals, parseInterval } from "../../../src/base/address-interval.ts";
import type { Family } from "../../../src/base/family.ts";

test.each<[Family, string[], string[]]>([
  ["ip", ["10.0.1.128/32", "10.0.1.0/25", "10.0.0.0/24"], ["10.0.0.0-10.0.1.128"]],
  ["ip", ["128.0.0.0/1", "0.0.0.0/1"], ["0.0.0.0/0"]],
  ["ip6", ["fd00::/64", "fd00::/48", "fd01::1/128"], ["fd00::/48", "fd01::1"]],
  ["ip", [], []],
])(
  "joinIntervals joins overlapping and adjacent %s intervals as nft lists them: %j",
  (family, texts, joined) => {
    const intervals = joinIntervals(texts.map((text) => parseInterval(family, text)));
    expect(intervals.map((interval) => intervalText(family, interval))).toEqual(joined);
  },
);
