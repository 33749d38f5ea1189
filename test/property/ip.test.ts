import { isIP } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { joinIntervals, parseInterval } from "../../src/base/address-interval.ts";
import type { Family } from "../../src/base/family.ts";
import { canonicalAddress, canonicalCidr, cidrContains, compareAddresses } from "../../src/model/ip.ts";
import { runs } from "../support/property-runs.ts";

/** The number of an address, worked out with nothing of what is under test. */
function numberOf(address: string): bigint {
  if (isIP(address) === 4) return address.split(".").reduce((value, byte) => value * 256n + BigInt(byte), 0n);
  const host = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = "", tail = ""] = host.split("::");
  const groups = (text: string) => text.split(":").filter((group) => group !== "");
  const zeros = 8 - groups(head).length - groups(tail).length;
  const all = [...groups(head), ...new Array<string>(zeros).fill("0"), ...groups(tail)];
  return all.reduce((value, group) => value * 65536n + BigInt(`0x${group}`), 0n);
}

const ipv4 = fc.ipV4();
const ipv6 = fc.ipV6().filter((text) => canonicalAddress(text) !== undefined);
/** Few distinct networks, so that they overlap and touch. */
const crowdedCidr = fc
  .tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 255 }), fc.integer({ min: 20, max: 32 }))
  .map(([third, fourth, length]) => canonicalCidr(`10.0.${third}.${fourth}/${length}`) ?? "");
const crowdedCidr6 = fc
  .tuple(fc.integer({ min: 0, max: 0x3ff }), fc.integer({ min: 116, max: 128 }))
  .map(([low, length]) => canonicalCidr(`fd00::${low.toString(16)}/${length}`) ?? "");

test("canonicalAddress keeps the address, and leaves a canonical one unchanged", () => {
  fc.assert(
    fc.property(fc.oneof(ipv4, ipv6), (text) => {
      const canonical = canonicalAddress(text) ?? "";
      expect(numberOf(canonical)).toBe(numberOf(text));
      expect(canonicalAddress(canonical)).toBe(canonical);
    }),
  );
});

test("canonicalAddress refuses every text that the runtime's own parser refuses", () => {
  const nearly = fc.stringMatching(/^[0-9a-fA-F:.%/ ]{0,20}$/);
  fc.assert(
    fc.property(fc.oneof(nearly, fc.string(), ipv4, ipv6), (text) => {
      if (canonicalAddress(text) !== undefined) expect(isIP(text)).not.toBe(0);
    }),
    { numRuns: runs(2000) },
  );
});

test("cidrContains is true for exactly the addresses that share the CIDR's first bits", () => {
  fc.assert(
    fc.property(fc.oneof(fc.tuple(ipv4, ipv4), fc.tuple(ipv6, ipv6)), fc.nat(128), ([a, b], bits) => {
      const width = isIP(a) === 4 ? 32 : 128;
      const length = Math.min(bits, width);
      const cidr = canonicalCidr(`${a}/${length}`) ?? "";
      const shift = BigInt(width - length);
      expect(cidrContains(cidr, canonicalAddress(b) ?? "")).toBe(
        numberOf(a) >> shift === numberOf(b) >> shift,
      );
      expect(cidrContains(cidr, canonicalAddress(a) ?? "")).toBe(true);
    }),
  );
});

test("compareAddresses orders addresses as numbers", () => {
  fc.assert(
    fc.property(fc.oneof(fc.tuple(ipv4, ipv4), fc.tuple(ipv6, ipv6)), ([a, b]) => {
      const expected = numberOf(a) < numberOf(b) ? -1 : numberOf(a) > numberOf(b) ? 1 : 0;
      const order = compareAddresses(canonicalAddress(a) ?? "", canonicalAddress(b) ?? "");
      expect(Math.sign(order)).toBe(expected);
    }),
  );
});

test.each<[Family, fc.Arbitrary<string>]>([
  ["ip", crowdedCidr],
  ["ip6", crowdedCidr6],
])("joinIntervals of %s keeps the addresses, sorts them and leaves nothing to join", (family, cidr) => {
  fc.assert(
    fc.property(fc.array(cidr, { maxLength: 12 }), fc.array(cidr), (cidrs, probes) => {
      const intervals = cidrs.map((text) => parseInterval(family, text));
      const joined = joinIntervals(intervals);
      for (const [index, { first, last }] of joined.entries()) {
        expect(first <= last).toBe(true);
        expect(index === 0 || first > (joined[index - 1]?.last ?? 0n) + 1n).toBe(true);
      }
      for (const probe of [...cidrs, ...probes].map((text) => text.split("/")[0] ?? "")) {
        const value = numberOf(probe);
        const inJoined = joined.some(({ first, last }) => first <= value && value <= last);
        expect(inJoined).toBe(cidrs.some((text) => cidrContains(text, probe)));
      }
      expect(joinIntervals(intervals.toReversed())).toEqual(joined);
    }),
  );
});
