import { describe, expect, test } from "vitest";
import { hostAddresses } from "../../../src/kernel/addresses.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";

const FIB_TRIE = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
        |-- 127.255.255.255
           /32 link BROADCAST
     |-- 192.0.2.9
        /32 universe UNICAST
        /32 host LOCAL
     |-- 192.0.2.10
        /32 universe UNICAST
Local:
     |-- 192.0.2.9
        /32 host LOCAL
     |-- 10.0.0.2
        /32 host LOCAL
`;
const IF_INET6 = `fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
fd00000000000000000000000000000a 04 40 00 82     eth0
`;

const ROUTE =
  "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\n";

describe("hostAddresses", () => {
  const ip = { "/proc/net/fib_trie": FIB_TRIE, "/proc/net/route": ROUTE };
  const files = new FakeHostFiles({ ...ip, "/proc/net/if_inet6": IF_INET6 });

  test("has the local host routes of IPv4 and the addresses of IPv6, sorted", async () => {
    const { local, addresses } = await hostAddresses(files);
    const ip6 = ["::1", "fd00::a", "fe80::fc:ff:fe00:1"];
    expect(local).toEqual(["10.0.0.2", "127.0.0.1", "192.0.2.9", ...ip6]);
    expect(addresses.ip6).toEqual(ip6);
  });

  test("has none of IPv6 on a host without it, and throws without /proc", async () => {
    expect((await hostAddresses(new FakeHostFiles(ip))).addresses.ip6).toEqual([]);
    await expect(hostAddresses(new FakeHostFiles({}))).rejects.toMatchObject({ code: "HOST" });
  });

  test("has IPv4 addresses of interfaces with a carrier, and local ones in subnets of the others", async () => {
    const lo = { address: "127.0.0.1" };
    const ofInterfaces = async (running: Parameters<typeof hostAddresses>[1]) =>
      (await hostAddresses(files, running)).addresses.ip;
    expect(await ofInterfaces({ lo: [lo] })).toEqual(["10.0.0.2", "127.0.0.1"]);
    expect(await ofInterfaces({ lo: [lo], eth1: [{ address: "10.0.0.9" }] })).toEqual(["127.0.0.1"]);
    expect(await ofInterfaces({ eth0: [{ address: "192.0.2.9" }], eth1: [] })).toEqual(["192.0.2.9"]);
  });
});
