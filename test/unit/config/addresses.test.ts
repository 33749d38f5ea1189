import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byFamily, type Family } from "../../../src/base/family.ts";
import {
  formatListenAddress,
  type NodePortSelection,
  nodePortAddressList,
  parseClusterCIDRs,
  parseListenAddress,
  parseNodePortAddresses,
} from "../../../src/config/addresses.ts";
import { canonicalAddress, canonicalCidr } from "../../../src/model/ip.ts";

const ipv4 = fc.ipV4();
const ipv6 = fc.ipV6().filter((text) => canonicalAddress(text) !== undefined);
const port = fc.integer({ min: 1, max: 65_535 });

describe("parseListenAddress", () => {
  it.each([
    ["10.0.0.1", "10.0.0.1", 7],
    ["10.0.0.1:80", "10.0.0.1", 80],
    ["0.0.0.0:65535", "0.0.0.0", 65_535],
    ["::", "::", 7],
    ["fd00:0::1", "fd00::1", 7],
    ["[::]:80", "::", 80],
    ["[FD00::1]:80", "fd00::1", 80],
  ])("reads %s as address %s and port %i", (text, address, expected) => {
    expect(parseListenAddress(text, 7)).toEqual({ address, port: expected });
  });

  it.each([
    "",
    ":80",
    "10.0.0.1:",
    "10.0.0.1:00",
    "10.0.0.1:65536",
    "10.0.0.1:080",
    "10.0.0.1:80:80",
    "10.0.0.1:http",
    "010.0.0.1:80",
    "10.0.0:80",
    "fd00::1:x",
    "[fd00::1]",
    "[fd00::1%eth0]:80",
    "[10.0.0.1:80",
    "localhost:80",
    " 10.0.0.1:80",
    "10.0.0.1:80\n",
  ])("refuses %j", (text) => {
    expect(parseListenAddress(text, 7)).toBeUndefined();
  });

  it("reads what formatListenAddress writes", () => {
    fc.assert(
      fc.property(fc.oneof(ipv4, ipv6), port, (text, number) => {
        const given = { address: canonicalAddress(text) ?? "", port: number };
        expect(parseListenAddress(formatListenAddress(given), 7)).toEqual(given);
      }),
    );
  });
});

describe("parseClusterCIDRs", () => {
  it.each([
    ["", [], []],
    ["10.244.0.0/16", ["10.244.0.0/16"], []],
    ["fd00:244::/32", [], ["fd00:244::/32"]],
    ["10.244.0.0/16,fd00:244::/32", ["10.244.0.0/16"], ["fd00:244::/32"]],
    ["fd00:244::/32,10.244.3.4/16", ["10.244.0.0/16"], ["fd00:244::/32"]],
  ])("reads %j as %j of IPv4 and %j of IPv6", (text, ip, ip6) => {
    expect(parseClusterCIDRs(text)).toEqual({ ip, ip6 });
  });

  it.each([
    "10.0.0.0",
    "10.0.0.0/33",
    "10.0.0.0/8,11.0.0.0/8",
    "fd00::/8,fd01::/16",
    "10.0.0.0/8, fd00::/8",
    "10.0.0.0/8,",
    "primary",
  ])("refuses %j", (text) => {
    expect(parseClusterCIDRs(text)).toBeUndefined();
  });
});

interface SelectionOptions {
  readonly primary?: boolean;
  readonly ip?: readonly string[];
  readonly ip6?: readonly string[];
  readonly localhost?: readonly Family[];
}

function selection({
  primary = false,
  ip = [],
  ip6 = [],
  localhost = [],
}: SelectionOptions): NodePortSelection {
  return { primary, localhost: byFamily((family) => localhost.includes(family)), cidrs: { ip, ip6 } };
}

describe("parseNodePortAddresses", () => {
  it("takes an empty list and the word primary for the node's primary addresses", () => {
    expect(parseNodePortAddresses([])).toEqual(selection({ primary: true }));
    expect(parseNodePortAddresses(["primary"])).toEqual(selection({ primary: true }));
  });

  it("takes every address of the family for which no CIDR is given, as kube-proxy does", () => {
    expect(parseNodePortAddresses(["10.0.0.1/8"])).toEqual(selection({ ip: ["10.0.0.0/8"], ip6: ["::/0"] }));
    expect(parseNodePortAddresses(["fd00::/8"])).toEqual(selection({ ip: ["0.0.0.0/0"], ip6: ["fd00::/8"] }));
  });

  it.each([
    [["localhost"], selection({ localhost: ["ip", "ip6"] })],
    [["primary", "localhost"], selection({ primary: true, localhost: ["ip", "ip6"] })],
    [["primary", "127.0.0.1/32"], selection({ primary: true, localhost: ["ip"] })],
    [["::1/128"], selection({ ip: ["0.0.0.0/0"], localhost: ["ip6"] })],
    [["all"], selection({ ip: ["0.0.0.0/0"], ip6: ["::/0"] })],
    [["all", "localhost"], selection({ ip: ["0.0.0.0/0"], ip6: ["::/0"], localhost: ["ip", "ip6"] })],
    [["primary", "10.0.0.0/8", "primary"], selection({ primary: true, ip: ["10.0.0.0/8"] })],
    [["10.0.0.0/8", "localhost"], selection({ ip: ["10.0.0.0/8"], localhost: ["ip", "ip6"] })],
  ])("reads %j, and what it is written out as", (list, expected) => {
    expect(parseNodePortAddresses(list)).toEqual(expected);
    expect(parseNodePortAddresses(nodePortAddressList(expected))).toEqual(expected);
  });

  it.each([[["10.0.0.1"]], [[""]], [["Primary"]], [["primary", "toString"]]])("refuses %j", (list) => {
    expect(parseNodePortAddresses(list)).toBeUndefined();
  });

  it("keeps every CIDR once, in its family, in the order given", () => {
    const cidr = fc.oneof(
      fc.tuple(ipv4, fc.integer({ min: 0, max: 32 })),
      fc.tuple(ipv6, fc.integer({ min: 0, max: 128 })),
    );
    fc.assert(
      fc.property(fc.array(cidr, { minLength: 1 }), (pairs) => {
        const texts = pairs.map(([address, length]) => `${address}/${length}`);
        const result = parseNodePortAddresses(texts);
        const isLoopback = (text: string | undefined) => /^(127\.|::1\/)/.test(text ?? "");
        const expected = [...new Set(texts.map((text) => canonicalCidr(text)))];
        for (const family of ["ip", "ip6"] as const) {
          const own = expected.filter((text) => text?.includes(":") === (family === "ip6"));
          const every = [family === "ip" ? "0.0.0.0/0" : "::/0"];
          expect(result?.cidrs[family]).toEqual(
            own.length > 0 ? own.filter((text) => !isLoopback(text)) : every,
          );
          expect(result?.localhost[family]).toBe(own.some(isLoopback));
        }
      }),
    );
  });
});
