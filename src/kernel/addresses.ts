import { type NetworkInterfaceInfo, networkInterfaces } from "node:os";
import { type AddressInterval, addressNumber } from "../base/address-interval.ts";
import { AppError } from "../base/errors.ts";
import type { ByFamily, Family } from "../base/family.ts";
import { canonicalAddress, compareAddresses } from "../model/ip.ts";
import { type HostFiles, systemErrorCode } from "./host.ts";
import { parseIPv4Route } from "./routes.ts";

/**
 * Returns the local addresses of this host. Reads /proc, because Node's `os.networkInterfaces` omits
 * interfaces without a carrier, whose addresses are still local.
 */
async function localAddresses(family: Family, files: HostFiles): Promise<string[]> {
  const [path, parse] =
    family === "ip" ? ["/proc/net/fib_trie", ipv4Locals] : ["/proc/net/if_inet6", ipv6Locals];
  const found = new Set<string>();
  try {
    for await (const address of parse(files.lines(path))) found.add(address);
  } catch (cause) {
    if (family === "ip" || systemErrorCode(cause) !== "ENOENT") {
      throw new AppError(
        "HOST",
        `cannot read this host's addresses from ${path}: ${systemErrorCode(cause)}`,
        { cause },
      );
    }
  }
  return [...found].sort(compareAddresses);
}

/** The interfaces with a carrier and their addresses, as `os.networkInterfaces` returns them. */
type RunningInterfaces = NodeJS.Dict<readonly Pick<NetworkInterfaceInfo, "address">[]>;

/** The addresses of a host, canonical and sorted, including loopback. */
export interface HostAddresses {
  /**
   * Those of interfaces. kube-proxy matches the same ones with the CIDRs of `nodePortAddresses`. Addresses
   * with only a local route (AnyIP, load balancer addresses that a cloud agent routes to the node) are
   * excluded.
   */
  readonly addresses: ByFamily<readonly string[]>;
  /** All local addresses, of both families. */
  readonly local: readonly string[];
}

/**
 * Reads the addresses of this host.
 * @throws AppError HOST if /proc cannot be read; a host without IPv6 has no IPv6 addresses
 */
export async function hostAddresses(
  files: HostFiles,
  running: RunningInterfaces = networkInterfaces(),
): Promise<HostAddresses> {
  const [ip, ip6] = [await localAddresses("ip", files), await localAddresses("ip6", files)];
  return { addresses: { ip: await interfaceAddresses(ip, files, running), ip6 }, local: [...ip, ...ip6] };
}

/**
 * Returns the IPv4 addresses of interfaces. Node omits interfaces without a carrier, so a local address in a
 * subnet connected by such an interface counts too; only a /32 on one is missed.
 */
async function interfaceAddresses(
  locals: readonly string[],
  files: HostFiles,
  running: RunningInterfaces,
): Promise<string[]> {
  const own = new Set(Object.values(running).flatMap((list) => (list ?? []).map(({ address }) => address)));
  const idle: AddressInterval[] = [];
  for await (const line of files.lines("/proc/net/route")) {
    const route = parseIPv4Route(line);
    if (route?.interface === undefined || route.gateway !== NO_GATEWAY || route.length === 0) continue;
    if (running[route.interface] === undefined) idle.push(route);
  }
  return locals.filter((address) => {
    const number = addressNumber("ip", address);
    return own.has(address) || idle.some(({ first, last }) => first <= number && number <= last);
  });
}

/** The gateway of a connected subnet. */
const NO_GATEWAY = "00000000";

/**
 * Parses /proc/net/fib_trie: a line with an address, followed by a line for each route to it (`/32 host
 * LOCAL`). Local prefixes shorter than /32 (127.0.0.0/8, AnyIP) are not addresses of an interface.
 */
async function* ipv4Locals(lines: AsyncIterable<string>): AsyncIterable<string> {
  let address = "";
  for await (const line of lines) {
    address = /\|-- (\S+)/.exec(line)?.[1] ?? address;
    if (line.trim() === "/32 host LOCAL") yield address;
  }
}

/** Parses /proc/net/if_inet6: 32 hexadecimal digits, index, prefix length, scope, flags, interface. */
async function* ipv6Locals(lines: AsyncIterable<string>): AsyncIterable<string> {
  for await (const line of lines) {
    const groups = line.slice(0, 32).match(/[\da-f]{4}/g) ?? [];
    const address = canonicalAddress(groups.join(":"), "ip6");
    if (address !== undefined) yield address;
  }
}
