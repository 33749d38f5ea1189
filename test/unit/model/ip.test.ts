import { describe, expect, test } from "vitest";
import {
  canonicalAddress,
  canonicalCidr,
  cidrContains,
  compareAddresses,
  isLinkLocal,
  isLoopback,
  isMulticast,
  isUnspecified,
} from "../../../src/model/ip.ts";

describe("canonicalAddress", () => {
  // The right column is what `nft -j list` of nft 1.1.3 printed for an element given as the left one.
  test.each([
    ["10.0.0.1", "10.0.0.1"],
    ["0.0.0.0", "0.0.0.0"],
    ["255.255.255.255", "255.255.255.255"],
    ["::1", "::1"],
    ["::5", "::5"],
    ["::1:0", "::0.1.0.0"],
    ["::1:2", "::0.1.0.2"],
    ["::1:0:0", "::1:0:0"],
    ["0:0:0:0:0:1:2:3", "::1:2:3"],
    ["0:0:1::", "0:0:1::"],
    ["1::2:0:0:3", "1::2:0:0:3"],
    ["1:0:0:2:0:0:0:0", "1:0:0:2::"],
    ["1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"],
    ["64:ff9b::1.2.3.4", "64:ff9b::102:304"],
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["FD00:0244:0001::000A", "fd00:244:1::a"],
    ["::", "::"],
  ])("writes %s as %s", (text, canonical) => {
    expect(canonicalAddress(text)).toBe(canonical);
  });

  test.each([
    "",
    "10.0.0",
    "10.0.0.0.1",
    "010.1.1.1",
    "10.1.1.256",
    "0x0a.1.1.1",
    "10.0.0.1 ",
    "10.0.0.1\n",
    " 10.0.0.1",
    "10.0.0.1; flush ruleset",
    "10.0.0.1/32",
    "+1.2.3.4",
    "1.2.3.٤",
    ":",
    ":1",
    "1:",
    "1:2",
    "::1::2",
    ":::",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "12345::",
    "00001::",
    "g::",
    "fe80::1%eth0",
    "::1/128",
    "[::1]",
    "::ffff:1.2.3.4",
    "::ffff:102:304",
    "::1.2.3.04",
    "::1.2.3.256",
    "1.2.3.4::",
    "1.2.3.4:1.2.3.4::",
    "default",
    "@cluster-ips",
  ])("refuses %j", (text) => {
    expect(canonicalAddress(text)).toBeUndefined();
  });

  test("refuses an address of the other family", () => {
    expect(canonicalAddress("10.0.0.1", "ip6")).toBeUndefined();
    expect(canonicalAddress("::1", "ip")).toBeUndefined();
    expect(canonicalAddress("10.0.0.1", "ip")).toBe("10.0.0.1");
    expect(canonicalAddress("::1", "ip6")).toBe("::1");
  });
});

describe("canonicalCidr", () => {
  test.each([
    ["10.1.2.3/8", "10.0.0.0/8"],
    ["10.1.2.3/32", "10.1.2.3/32"],
    ["255.255.255.255/0", "0.0.0.0/0"],
    ["FD00::1/64", "fd00::/64"],
    ["::1/0", "::/0"],
  ])("writes %s as %s", (text, canonical) => {
    expect(canonicalCidr(text)).toBe(canonical);
  });

  test.each([
    "",
    "/8",
    "10.0.0.0",
    "10.0.0.0/",
    "10.0.0.0/33",
    "10.0.0.0/08",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    " 10.0.0.0/8",
    "10.0.0.0/255.0.0.0",
    "010.0.0.0/8",
    "::/129",
    "::ffff:10.0.0.0/104",
    "fe80::%eth0/64",
  ])("refuses %j", (text) => {
    expect(canonicalCidr(text)).toBeUndefined();
  });

  test("refuses a CIDR of the other family", () => {
    expect(canonicalCidr("10.0.0.0/8", "ip6")).toBeUndefined();
    expect(canonicalCidr("fd00::/8", "ip")).toBeUndefined();
  });
});

describe("address ranges:", () => {
  test("a CIDR contains its first and last address and no neighbour", () => {
    expect(cidrContains("10.0.0.0/30", "10.0.0.0")).toBe(true);
    expect(cidrContains("10.0.0.0/30", "10.0.0.3")).toBe(true);
    expect(cidrContains("10.0.0.0/30", "10.0.0.4")).toBe(false);
    expect(cidrContains("fd00::/127", "fd00::1")).toBe(true);
    expect(cidrContains("fd00::/127", "fd00::2")).toBe(false);
    expect(cidrContains("::/0", "10.0.0.1")).toBe(false);
  });

  test("addresses compare by number, IPv4 first", () => {
    const sorted = ["9.0.0.1", "10.0.0.2", "10.0.0.10", "::2", "::a", "1::", "fd00::"];
    expect(sorted.toReversed().sort(compareAddresses)).toEqual(sorted);
    expect(compareAddresses("::2", "::2")).toBe(0);
  });
});

test.each([
  ["127.0.0.1", true, false, false, false],
  ["127.255.0.1", true, false, false, false],
  ["::1", true, false, false, false],
  ["224.0.0.1", false, true, false, false],
  ["239.255.255.255", false, true, false, false],
  ["ff02::1", false, true, false, false],
  ["0.0.0.0", false, false, true, false],
  ["::", false, false, true, false],
  ["169.254.1.1", false, false, false, true],
  ["fe80::1", false, false, false, true],
  ["febf::1", false, false, false, true],
  ["fec0::1", false, false, false, false],
  ["240.0.0.1", false, false, false, false],
  ["12.7.0.1", false, false, false, false],
  ["fd00::1", false, false, false, false],
])("%s: loopback %s, multicast %s, unspecified %s, link-local %s", (address, ...expected) => {
  const predicates = [isLoopback, isMulticast, isUnspecified, isLinkLocal];
  expect(predicates.map((is) => is(address))).toEqual(expected);
});
