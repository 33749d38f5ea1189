import { describe, expect, test } from "vitest";
import {
  interfaceLookup,
  parseIPv4Route,
  type RoutedPacket,
  routingRefusal,
} from "../../../src/kernel/routes.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";

// As Linux 6.18 prints them on a little-endian machine.
const IPV4 = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
cali1	0B01F40A	00000000	0005	0	0	0	FFFFFFFF	0	0	0
wlan0	000200C0	00000000	0001	0	0	600	00FFFFFF	0	0	0
*	0000FE0A	00000000	0200	0	0	0	0000FFFF	0	0	0
`;
const IPV6 = `fd0000c0000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
fd000244000100000000000000000011 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000400 00000001 00000000 00000001    cali1
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd0000c0000000000000000000000001 00000400 00000001 00000000 00000003     eth0
`;

test.each([
  ["10.244.1.11", "cali1"],
  ["10.244.1.12", "eth0"],
  ["192.0.2.3", "eth0"],
  ["203.0.113.1", "eth0"],
  ["fd00:244:1::11", "cali1"],
  ["fd00:c0::9", "eth0"],
  ["2001:db8::1", "eth0"],
])("interfaceLookup routes %s by the longest prefix and the lowest metric", async (address, expected) => {
  const files = new FakeHostFiles({ "/proc/net/route": IPV4, "/proc/net/ipv6_route": IPV6 });
  expect((await interfaceLookup(files))(address)).toBe(expected);
});

test.each([
  ["LE", "000200C0", "00FFFFFF"],
  ["BE", "C0000200", "FFFFFF00"],
] as const)(
  "parseIPv4Route reads the route to 192.0.2.0/24 on a machine of order %s",
  (order, destination, mask) => {
    const line = `eth0 ${destination} 00000000 0001 0 0 0 ${mask} 0 0 0`;
    expect(parseIPv4Route(line, order)).toMatchObject({
      interface: "eth0",
      first: 0xc0000200n,
      last: 0xc00002ffn,
      length: 24,
    });
  },
);

test("interfaceLookup returns no interface for an address whose route refuses packets", async () => {
  const lookup = await interfaceLookup(new FakeHostFiles({ "/proc/net/route": IPV4 }));
  expect(lookup("10.254.1.1")).toBeUndefined();
});

test("interfaceLookup returns no interface for an address without a route", async () => {
  const lookup = await interfaceLookup(new FakeHostFiles({}));
  expect([lookup("192.0.2.1"), lookup("fd00::1")]).toEqual([undefined, undefined]);
});

describe("routingRefusal", () => {
  const own = new Set(["192.0.2.2"]);
  const conf = (family: string, of: string, name: string) => `/proc/sys/net/${family}/conf/${of}/${name}`;
  const settings = {
    [conf("ipv4", "cali1", "forwarding")]: "1\n",
    [conf("ipv6", "cali1", "forwarding")]: "1\n",
  };
  const packet = { input: "cali1", source: "10.244.1.11", destination: "192.0.2.3" };

  const refusal = (given: Partial<RoutedPacket>, sysctls: Readonly<Record<string, string>> = {}) => {
    const [, noDefault = ""] = /^(.*\n)eth0\t00000000.*\n/.exec(IPV4) ?? [];
    const route = `${noDefault}${IPV4.split("\n").slice(2).join("\n")}`;
    const files = new FakeHostFiles({
      "/proc/net/route": route,
      "/proc/net/ipv6_route": IPV6,
      ...settings,
      ...sysctls,
    });
    return routingRefusal(files, { ...packet, ...given }, own);
  };

  test.each<[Partial<RoutedPacket>, Readonly<Record<string, string>>, string | undefined]>([
    [{}, {}, undefined],
    [{ destination: "203.0.113.9" }, {}, "no route to 203.0.113.9"],
    [{ destination: "10.254.1.1" }, {}, "no route to 10.254.1.1"],
    [{ input: "", destination: "203.0.113.9" }, {}, "no route to 203.0.113.9"],
    [{ source: "127.0.0.1" }, {}, "the source 127.0.0.1 is a loopback address (martian source)"],
    [{ destination: "127.0.0.1" }, {}, "127.0.0.1 is a loopback address (martian destination)"],
    [{ source: "192.0.2.2" }, {}, "the source 192.0.2.2 is an address of this node (martian source)"],
    [{}, { [conf("ipv4", "cali1", "forwarding")]: "0\n" }, "forwarding is off on cali1"],
    [{ destination: "192.0.2.2" }, { [conf("ipv4", "cali1", "forwarding")]: "0\n" }, undefined],
    [
      { source: "192.0.2.9" },
      { [conf("ipv4", "cali1", "rp_filter")]: "1\n" },
      "the reverse path filter (rp_filter=1): 192.0.2.9 is routed to eth0, not to cali1",
    ],
    [{ source: "192.0.2.9" }, { [conf("ipv4", "all", "rp_filter")]: "2\n" }, undefined],
    [
      { source: "203.0.113.9" },
      { [conf("ipv4", "all", "rp_filter")]: "2\n" },
      "the reverse path filter (rp_filter=2): 203.0.113.9 has no route back",
    ],
    [{ source: "fd00:244:1::11", destination: "fd00:c0::9" }, {}, undefined],
  ])("of %j with %j is %j", async (given, sysctls, expected) => {
    expect(await refusal(given, sysctls)).toBe(expected);
  });
});
