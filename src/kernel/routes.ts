import { type AddressInterval, addressNumber, addressText, prefixInterval } from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import { familyOf } from "../model/ip.ts";
import type { HostFiles } from "./host.ts";

interface Route extends AddressInterval {
  readonly family: Family;
  readonly length: number;
  readonly metric: number;
  /** Undefined where the route refuses packets (`unreachable`, `blackhole`). */
  readonly interface: string | undefined;
}

/** Source: linux/route.h and linux/ipv6_route.h. */
const RTF_REJECT = 0x200;

/**
 * Reads the main routing tables from /proc. Rules of policy routing (`ip rule`) are not considered.
 * @returns a function from a canonical address to the interface that its packets leave by, undefined without a route
 */
export async function interfaceLookup(files: HostFiles): Promise<(address: string) => string | undefined> {
  const read = (path: string) => files.read(path).catch(() => "");
  const [ip, ip6] = await Promise.all([read("/proc/net/route"), read("/proc/net/ipv6_route")]);
  const routes = [...ip.split("\n").flatMap(ipv4Route), ...ip6.split("\n").flatMap(ipv6Route)].sort(
    (a, b) => b.length - a.length || a.metric - b.metric,
  );
  return (address) => {
    const family = familyOf(address);
    const number = addressNumber(family, address);
    return routes.find((route) => route.family === family && route.first <= number && number <= route.last)?.interface;
  };
}

/** `eth0 000200C0 00000000 0001 0 0 0 00FFFFFF ...`: addresses as the bytes of this (little-endian) machine. */
function ipv4Route(line: string): Route[] {
  const [name, destination, , flags, , , metric, mask] = line.trim().split(/\s+/);
  if (name === undefined || destination === undefined || mask === undefined || !/^[\dA-F]{8}$/.test(mask)) return [];
  const length = [...BigInt(`0x${mask}`).toString(2)].filter((bit) => bit === "1").length;
  const bytes = (destination.match(/../g) ?? []).reverse().join("");
  const interval = prefixInterval("ip", BigInt(`0x${bytes}`), length);
  return [{ family: "ip", ...interval, length, metric: Number(metric), interface: usable(name, flags) }];
}

/** Destination, its length, source, its length, next hop, metric, two counts, flags (all hexadecimal), interface. */
function ipv6Route(line: string): Route[] {
  const [destination, length, , , , metric, , , flags, name] = line.trim().split(/\s+/);
  if (destination === undefined || name === undefined || length === undefined) return [];
  const bits = Number.parseInt(length, 16);
  const address = addressNumber("ip6", addressText("ip6", BigInt(`0x${destination}`)));
  const interval = prefixInterval("ip6", address, bits);
  return [
    {
      family: "ip6",
      ...interval,
      length: bits,
      metric: Number.parseInt(metric ?? "0", 16),
      interface: usable(name, flags),
    },
  ];
}

function usable(name: string, flags = "0"): string | undefined {
  return (Number.parseInt(flags, 16) & RTF_REJECT) === 0 ? name : undefined;
}
