import { expect, test } from "vitest";
import {
  addressNumber,
  addressText,
  addressWidth,
  intervalText,
  joinIntervals,
  parseInterval,
  prefixesOf,
} from "../../../src/base/address-interval.ts";
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

/** The prefixes of an interval as CIDRs. */
function prefixes(family: Family, lengths: readonly number[], text: string): string[] {
  const found = prefixesOf(addressWidth(family), lengths, parseInterval(family, text));
  return found.map(({ first, length }) => `${addressText(family, first)}/${length}`);
}

const allLengths = (family: Family) =>
  Array.from({ length: addressWidth(family) + 1 }, (_, length) => length);

test.each<[Family, string, string[]]>([
  ["ip", "10.0.0.0/8", ["10.0.0.0/8"]],
  ["ip", "192.0.2.7", ["192.0.2.7/32"]],
  ["ip", "192.0.2.1-192.0.2.3", ["192.0.2.1/32", "192.0.2.2/31"]],
  ["ip", "10.0.0.0-10.0.1.128", ["10.0.0.0/24", "10.0.1.0/25", "10.0.1.128/32"]],
  ["ip", "0.0.0.0/0", ["0.0.0.0/0"]],
  ["ip", "255.255.255.254-255.255.255.255", ["255.255.255.254/31"]],
  ["ip6", "::/0", ["::/0"]],
  ["ip6", "fd00::1-fd00::2", ["fd00::1/128", "fd00::2/128"]],
  ["ip6", "fd00::-fd01::ffff", ["fd00::/16", "fd01::/112"]],
])("prefixesOf divides the %s interval %s into as few prefixes as possible: %j", (family, text, expected) => {
  expect(prefixes(family, allLengths(family), text)).toEqual(expected);
});

test.each<[string, readonly number[], string[]]>([
  ["10.0.0.0/15", [8, 16, 32], ["10.0.0.0/16", "10.1.0.0/16"]],
  ["10.0.0.0/8", [8, 16, 32], ["10.0.0.0/8"]],
  ["10.0.0.0/30", [8, 16, 32], ["10.0.0.0/32", "10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32"]],
  ["10.255.0.0-11.255.255.255", [8, 16, 32], ["10.255.0.0/16", "11.0.0.0/8"]],
  ["0.0.0.0/0", [1, 32], ["0.0.0.0/1", "128.0.0.0/1"]],
])(
  "prefixesOf divides the interval %s into prefixes of the lengths %j alone: %j",
  (text, lengths, expected) => {
    expect(prefixes("ip", lengths, text)).toEqual(expected);
  },
);

test.each<[Family, string, string, number]>([
  ["ip", "0.0.0.1", "255.255.255.254", 62],
  ["ip6", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", 254],
])(
  "prefixesOf divides the %s interval from %s to %s, the worst case, into ascending prefixes without a gap: %d",
  (family, first, last, count) => {
    const width = addressWidth(family);
    const interval = { first: addressNumber(family, first), last: addressNumber(family, last) };
    const found = prefixesOf(width, allLengths(family), interval);
    expect(found).toHaveLength(count);
    let next = interval.first;
    for (const prefix of found) {
      const size = 1n << BigInt(width - prefix.length);
      expect([prefix.first, prefix.first % size]).toEqual([next, 0n]);
      next += size;
    }
    expect(next).toBe(interval.last + 1n);
  },
);
