import { endianness } from "node:os";
import {
  type AddressInterval,
  addressNumber,
  addressWidth,
  prefixInterval,
} from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import { familyOf, isLoopback } from "../model/ip.ts";
import type { HostFiles } from "./host.ts";

/** A route to an interval of addresses. */
interface Route extends AddressInterval {
  readonly family: Family;
  /** Prefix length of the destination. */
  readonly length: number;
  readonly metric: number;
  /** The interface; undefined if the route refuses packets (`unreachable`, `blackhole`). */
  readonly interface: string | undefined;
}

/** Source: linux/route.h and linux/ipv6_route.h. */
const RTF_REJECT = 0x200;

/**
 * Reads the main routing tables from /proc. Ignores policy routing (`ip rule`).
 * @returns a function from a canonical address to the outgoing interface of its packets; undefined without a
 * route
 */
export async function interfaceLookup(files: HostFiles): Promise<(address: string) => string | undefined> {
  const routes = (await readRoutes(files)).sort((a, b) => b.length - a.length || a.metric - b.metric);
  return (address) => {
    const family = familyOf(address);
    const number = addressNumber(family, address);
    return routes.find((route) => route.family === family && route.first <= number && number <= route.last)
      ?.interface;
  };
}

/**
 * Reads the names of this namespace's interfaces from /proc/net/dev: two header lines, then a line for each
 * with its name before a colon. @throws the system's error
 */
export async function interfaceNames(files: HostFiles): Promise<string[]> {
  const lines = (await files.read("/proc/net/dev")).split("\n").slice(2);
  return lines.flatMap((line) => {
    const end = line.lastIndexOf(":");
    return end === -1 ? [] : [line.slice(0, end).trim()];
  });
}

/**
 * Returns the interfaces that lead to networks: uplinks, bridges and tunnels. The veth of a pod only has
 * routes to single addresses, and to the link-local ones that every interface has.
 */
export async function networkInterfaces(files: HostFiles): Promise<ReadonlySet<string>> {
  // fe80::/10 and ff00::/8.
  const isOfEveryLink = ({ family, first }: Route) =>
    family === "ip6" && (first >> 118n === 0x3fan || first >> 120n === 0xffn);
  const routes = (await readRoutes(files)).filter(
    (route) => route.length < addressWidth(route.family) && !isOfEveryLink(route),
  );
  return new Set(routes.flatMap((route) => route.interface ?? []));
}

/** A packet that the kernel has to route. */
export interface RoutedPacket {
  /** The incoming interface, "" for packets of the node itself. */
  readonly input: string;
  readonly source: string;
  readonly destination: string;
}

/**
 * Why the kernel refuses to route a packet, in its own order of checks: martian addresses, the route,
 * forwarding, the reverse path filter. Rules of policy routing (`ip rule`) are not considered.
 * Source: ip_route_input_slow and fib_validate_source, Linux 6.18
 * @param nodeAddresses the addresses of this host
 * @returns the reason, for a message; undefined if these checks do not refuse it
 */
export async function routingRefusal(
  files: HostFiles,
  { input, source, destination }: RoutedPacket,
  nodeAddresses: ReadonlySet<string>,
): Promise<string | undefined> {
  const family = familyOf(destination);
  const settings = `/proc/sys/net/${family === "ip" ? "ipv4" : "ipv6"}/conf`;
  const setting = async (name: string, of = input) =>
    Number(await files.read(`${settings}/${of}/${name}`).catch(() => "0"));
  const interfaceTo = await interfaceLookup(files);
  const isHere = nodeAddresses.has(destination) || isLoopback(destination);
  const isForeign = input !== "" && input !== "lo";
  if (isForeign && isLoopback(source)) return `the source ${source} is a loopback address (martian source)`;
  if (isForeign && isLoopback(destination))
    return `${destination} is a loopback address (martian destination)`;
  if (!isHere && interfaceTo(destination) === undefined) return `no route to ${destination}`;
  if (!isForeign) return undefined;
  if (!isHere && (await setting("forwarding")) === 0) return `forwarding is off on ${input}`;
  if (family === "ip6") return undefined;
  if (nodeAddresses.has(source)) return `the source ${source} is an address of this node (martian source)`;
  const filter = Math.max(await setting("rp_filter"), await setting("rp_filter", "all"));
  const back = interfaceTo(source);
  if (filter === 0 || back === input || (filter === 2 && back !== undefined)) return undefined;
  const way = back === undefined ? "has no route back" : `is routed to ${back}, not to ${input}`;
  return `the reverse path filter (rp_filter=${filter}): ${source} ${way}`;
}

async function readRoutes(files: HostFiles): Promise<Route[]> {
  const read = (path: string) => files.read(path).catch(() => "");
  const [ip, ip6] = await Promise.all([read("/proc/net/route"), read("/proc/net/ipv6_route")]);
  return [
    ...ip.split("\n").flatMap((line) => parseIPv4Route(line) ?? []),
    ...ip6.split("\n").flatMap((line) => parseIPv6Route(line) ?? []),
  ];
}

/** A line of /proc/net/route. */
interface IPv4Route extends Route {
  /** As printed by the kernel: eight zeros for a connected subnet. */
  readonly gateway: string;
}

/**
 * Parses `eth0 000200C0 00000000 0001 0 0 0 00FFFFFF ...`: each address is a number in this machine's byte
 * order.
 * @returns undefined for the header line
 */
export function parseIPv4Route(line: string, order = endianness()): IPv4Route | undefined {
  const [name = "", destination = "", gateway = "", flags, , , metric, mask = ""] = line.trim().split(/\s+/);
  if (!/^[\dA-F]{8}$/.test(mask)) return undefined;
  const length = [...BigInt(`0x${mask}`).toString(2)].filter((bit) => bit === "1").length;
  const bytes = order === "BE" ? destination : (destination.match(/../g) ?? []).reverse().join("");
  return {
    family: "ip",
    ...prefixInterval("ip", BigInt(`0x${bytes}`), length),
    length,
    metric: Number(metric),
    interface: usable(name, flags),
    gateway,
  };
}

/**
 * Parses destination, its length, source, its length, next hop, metric, two counts, flags (all hexadecimal),
 * and interface.
 */
function parseIPv6Route(line: string): Route | undefined {
  const [destination, length = "", , , , metric = "", , , flags, name] = line.trim().split(/\s+/);
  if (name === undefined) return undefined;
  const bits = Number.parseInt(length, 16);
  return {
    family: "ip6",
    ...prefixInterval("ip6", BigInt(`0x${destination}`), bits),
    length: bits,
    metric: Number.parseInt(metric, 16),
    interface: usable(name, flags),
  };
}

function usable(name: string, flags = "0"): string | undefined {
  return (Number.parseInt(flags, 16) & RTF_REJECT) === 0 ? name : undefined;
}
