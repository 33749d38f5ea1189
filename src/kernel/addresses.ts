import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import { canonicalAddress, cidrContains, compareAddresses, isLoopback } from "../model/ip.ts";
import type { NodePortAddresses } from "../model/node.ts";
import { type HostFiles, systemErrorCode } from "./host.ts";

/**
 * The addresses that the kernel takes as its own, canonical and sorted, with loopback. Read from /proc, because
 * Node's `os.networkInterfaces` leaves out interfaces without a carrier, whose addresses stay local all the same.
 *
 * @throws AppError HOST when /proc does not say (an absent IPv6 is no error: it has no addresses)
 */
export async function localAddresses(family: Family, files: HostFiles): Promise<string[]> {
  const path = family === "ip" ? "/proc/net/fib_trie" : "/proc/net/if_inet6";
  const found = new Set<string>();
  try {
    for await (const address of family === "ip" ? ipv4Locals(files.lines(path)) : ipv6Locals(files.lines(path))) {
      found.add(address);
    }
  } catch (cause) {
    if (family === "ip" || systemErrorCode(cause) !== "ENOENT") {
      throw new AppError("HOST", `cannot read this host's addresses from ${path}: ${systemErrorCode(cause)}`, {
        cause,
      });
    }
  }
  return [...found].sort(compareAddresses);
}

/**
 * /proc/net/fib_trie: a line with an address, then a line for each route to it (`/32 host LOCAL`). Prefixes shorter
 * than /32 that are local (127.0.0.0/8, AnyIP) are no addresses of an interface.
 */
async function* ipv4Locals(lines: AsyncIterable<string>): AsyncIterable<string> {
  let address = "";
  for await (const line of lines) {
    address = /\|-- (\S+)/.exec(line)?.[1] ?? address;
    if (line.trim() === "/32 host LOCAL") yield address;
  }
}

/** /proc/net/if_inet6: 32 hexadecimal digits, index, prefix length, scope, flags, interface. */
async function* ipv6Locals(lines: AsyncIterable<string>): AsyncIterable<string> {
  for await (const line of lines) {
    const groups = line.slice(0, 32).match(/[\da-f]{4}/g) ?? [];
    const address = canonicalAddress(groups.join(":"), "ip6");
    if (address !== undefined) yield address;
  }
}

/**
 * Which of a family's `addresses` `--nodeport-addresses` selects: all for a CIDR of length 0, else those in
 * the CIDRs; never loopback, which nftables cannot serve without route_localnet.
 * All canonical, of one family.
 */
export function matchNodePortAddresses(cidrs: readonly string[], addresses: readonly string[]): NodePortAddresses {
  if (cidrs.some((cidr) => cidr.endsWith("/0"))) return { kind: "all" };
  const matched = addresses.filter(
    (address) => !isLoopback(address) && cidrs.some((cidr) => cidrContains(cidr, address)),
  );
  return { kind: "addresses", addresses: matched };
}
