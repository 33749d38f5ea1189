import type { AnyExpression, ContentOf } from "../nft/ast/any-table.ts";
import { type Branch, type Evaluated, UNKNOWN } from "./branch.ts";
import { isEcho, isLocal, type Packet } from "./packet.ts";

const TRANSPORT_PROTOCOLS = new Set(["tcp", "udp", "sctp", "udplite", "dccp", "icmp", "icmpv6"]);

/** TCP flags as numbers: of a connection's first packet (SYN) and of its answer (SYN, ACK). RFC 9293. */
const SYN = 0x02;
const SYN_ACK = 0x12;

/** Returns a field of the packet's headers; undefined for a header that the packet lacks. */
export function payloadValue(branch: Branch, payload: ContentOf<AnyExpression, "payload">): Evaluated {
  const { packet, family } = branch.evaluation;
  if ("base" in payload) return UNKNOWN;
  const { protocol, field } = payload;
  if (protocol === "ip" || protocol === "ip6") {
    if (protocol !== family) return undefined;
    if (field === "saddr") return branch.source ?? UNKNOWN;
    if (field === "daddr") return branch.isDestinationKnown ? branch.destination : UNKNOWN;
    if (field === "version") return family === "ip" ? 4 : 6;
    return field === "protocol" || field === "nexthdr" ? packet.protocol : UNKNOWN;
  }
  if (protocol !== "th") {
    if (!TRANSPORT_PROTOCOLS.has(protocol)) return UNKNOWN;
    if (protocol !== packet.protocol) return undefined;
  }
  if (isEcho(packet.protocol)) return echoField(packet, field);
  if (field === "sport") return branch.sourcePort ?? UNKNOWN;
  if (field === "dport") return packet.answers === undefined ? branch.port : UNKNOWN;
  if (protocol !== "tcp" || field !== "flags") return UNKNOWN;
  if (packet.answers !== undefined) return SYN_ACK;
  return packet.conntrack === "established" ? UNKNOWN : SYN;
}

/**
 * Represents the bytes that `th dport` reads in an echo request: its checksum, which equals a given port in
 * one of 65,536 packets. No port has this number.
 */
const CHECKSUM = 65_536;

/** Returns a field of an ICMP header. */
function echoField({ answers, port }: Packet, field: string): Evaluated {
  if (field === "type") return answers === undefined ? "echo-request" : "echo-reply";
  if (field === "id") return port;
  return field === "dport" ? CHECKSUM : UNKNOWN;
}

/** Returns metadata of a packet, which is not in its headers. */
export function metaValue(branch: Branch, key: string): Evaluated {
  const { packet, family } = branch.evaluation;
  switch (key) {
    case "l4proto":
      return packet.protocol;
    case "mark":
    case "priority":
      return branch[key] ?? UNKNOWN;
    case "iifname":
    case "iif":
      return branch.iifname ?? UNKNOWN;
    case "oifname":
    case "oif":
      return outputInterface(branch);
    case "nfproto":
      return family === "ip" ? "ipv4" : "ipv6";
    case "protocol":
      return family;
    case "skuid":
    case "skgid":
    case "cgroup":
      // A forwarded packet has no socket, which ends the rule.
      return packet.from.at === "node" ? UNKNOWN : undefined;
    default:
      return UNKNOWN;
  }
}

/**
 * Returns the outgoing interface. For the node's own packets in the output hook it is that of the original
 * destination: a translation there changes the route, but later chains of the hook do not see that (Linux
 * 6.18).
 */
function outputInterface({ evaluation, hook, destination }: Branch): Evaluated {
  const { host, packet } = evaluation;
  if (hook === "prerouting" || hook === "input") return "";
  const to = hook === "output" ? packet.to : destination;
  if (hook !== "forward" && isLocal(host, to)) return "lo";
  return host.interfaceTo?.(to) ?? UNKNOWN;
}

/** Returns a property of the packet's connection. `status` is a set of bits: see matches.ts. */
export function ctValue(branch: Branch, { key, dir }: ContentOf<AnyExpression, "ct">): Evaluated {
  const { packet, family } = branch.evaluation;
  const { endpoint } = packet;
  const isNew = packet.conntrack !== "established";
  if (key === "state") return packet.conntrack ?? "new";
  if (key === "mark") return branch.connectionMark ?? UNKNOWN;
  if (key.startsWith("ip") && !key.startsWith(`${family} `)) return undefined;
  if (packet.answers !== undefined) {
    if (key === "direction") return "reply";
    const { conntrack: _, ...first } = packet.answers.packet;
    return dir === "original"
      ? ctValue({ ...branch, evaluation: { ...branch.evaluation, packet: first } }, { key, dir })
      : UNKNOWN;
  }
  if (!isNew && endpoint === undefined) return UNKNOWN;
  if (key === "direction") return "original";
  if (dir === "reply" && endpoint !== undefined) {
    if (key === `${family} saddr`) return endpoint.address;
    return key === "proto-src" ? endpoint.port : UNKNOWN;
  }
  if (dir !== "original") return UNKNOWN;
  if (key === `${family} saddr` || key === "saddr") return packet.from.address;
  if (key === `${family} daddr` || key === "daddr") return packet.to;
  if (key === "proto-dst" && !isEcho(packet.protocol)) return packet.port;
  return key === "protocol" ? packet.protocol : UNKNOWN;
}

/** The interface of a missing route. */
export const NO_ROUTE = "";

/** Returns the result of a route lookup: the type of an address, or the interface towards the source. */
export function fibValue(branch: Branch, { flags, result }: ContentOf<AnyExpression, "fib">): Evaluated {
  const { host } = branch.evaluation;
  if (result === "oif" || result === "oifname") return reversePath(branch, flags);
  const [flag, more] = flags;
  if (result !== "type" || more !== undefined || (flag !== "saddr" && flag !== "daddr")) return UNKNOWN;
  if (flag === "daddr" && !branch.isDestinationKnown) return "local";
  const address = flag === "saddr" ? branch.source : branch.destination;
  if (address === undefined) return UNKNOWN;
  return isLocal(host, address) ? "local" : "unicast";
}

/**
 * Returns the interface towards the source, by the main routing table. With the flag `iif`, only if the
 * packet came in by it (the reverse path filter of firewalld and others).
 */
function reversePath({ evaluation: { host }, source, iifname }: Branch, flags: readonly string[]): Evaluated {
  if (!flags.includes("saddr") || source === undefined) return UNKNOWN;
  const route = host.interfaceTo?.(source);
  if (route === undefined) return UNKNOWN;
  if (!flags.includes("iif")) return route;
  if (iifname === undefined) return UNKNOWN;
  return route === iifname ? route : NO_ROUTE;
}
