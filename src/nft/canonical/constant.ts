import { addressText } from "../../base/address-interval.ts";
import type { AnyExpression } from "../ast/any-table.ts";
import type { ConstantType } from "../data-types.ts";
import { addressInterval } from "./address.ts";
import { asNumber, asText } from "./shape.ts";

const PROTOCOL_NAMES: Readonly<Record<number, string>> = {
  1: "icmp",
  6: "tcp",
  17: "udp",
  58: "icmpv6",
  132: "sctp",
};
const PROTOCOL_NUMBERS: Readonly<Record<string, number>> = Object.fromEntries(
  Object.entries(PROTOCOL_NAMES).map(([number, name]) => [name, Number(number)]),
);

/** TCP's flags by nft's names. Source: RFC 9293, section 3.1. */
export const TCP_FLAGS: Readonly<Record<string, number>> = {
  fin: 1,
  syn: 2,
  rst: 4,
  psh: 8,
  ack: 16,
  urg: 32,
  ecn: 64,
  cwr: 128,
};

/** Values of the DSCP field by nft's names. Source: src/proto.c, nft 1.1.3. */
const DSCP: Readonly<Record<string, number>> = {
  ...Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`cs${i}`, 8 * i])),
  ...Object.fromEntries(
    [1, 2, 3, 4].flatMap((i) => [1, 2, 3].map((drop) => [`af${i}${drop}`, 8 * i + 2 * drop])),
  ),
  ...{ df: 0, be: 0, lephb: 1, va: 44, ef: 46 },
};

/**
 * Reads a constant: addresses as canonical text, protocols by name, all numbers, classids, DSCP values and
 * TCP flags as numbers. Keeps references to sets (`@name`) and constants of other types.
 * @throws AppError NFT_OUTPUT if it is not of its type
 */
export function readConstant(value: string | number, type: ConstantType): string | number {
  if (typeof value === "string" && value.startsWith("@")) return value;
  switch (type) {
    case "ipv4_addr":
      return addressText("ip", addressInterval("ip", value).first);
    case "ipv6_addr":
      return addressText("ip6", addressInterval("ip6", value).first);
    case "inet_service":
    case "integer":
    case "mark":
      return asNumber(value, "number");
    case "inet_proto":
      return parseProtocol(value);
    case "classid":
      return parseClassid(value);
    case "dscp":
      return numberOf(DSCP, value);
    case "tcp_flag":
      return numberOf(TCP_FLAGS, value);
    case "ifname":
    case "other":
      return value;
  }
}

function numberOf(names: Readonly<Record<string, number>>, value: string | number): number {
  return asNumber(Object.hasOwn(names, value) ? names[value] : value, "number");
}

/**
 * Reads a classid as a 32-bit number. nft prints 0 as `none`, 2^32-1 as `root`, others as hexadecimal
 * `major:minor`, where either half may be absent (tc(8)). Numbers are accepted.
 */
export function parseClassid(value: unknown): number {
  if (typeof value === "number") return asNumber(value, "classid");
  const text = asText(value, "classid");
  if (text === "none") return 0;
  if (text === "root") return 0xffffffff;
  const colon = text.indexOf(":");
  if (colon === -1) return asNumber(text, "classid");
  return half(text.slice(0, colon)) * 0x10000 + half(text.slice(colon + 1));
}

function half(text: string): number {
  return text === "" ? 0 : asNumber(`0x${text}`, "classid");
}

/** A classid the way nft prints it. */
export function formatClassid(classid: number): string {
  if (classid === 0) return "none";
  if (classid === 0xffffffff) return "root";
  return `${Math.floor(classid / 0x10000).toString(16)}:${(classid % 0x10000).toString(16)}`;
}

/** The name of a transport protocol. Without a protocols database, nft prints the number. */
export function parseProtocol(value: unknown): string {
  // The name in /etc/protocols; nft's own rules have the other.
  if (value === "ipv6-icmp") return "icmpv6";
  if (typeof value === "string" && !/^\d+$/.test(value)) return value;
  const number = asNumber(value, "protocol");
  return PROTOCOL_NAMES[number] ?? String(number);
}

/** The number of a transport protocol, by the name from {@link parseProtocol}. */
export function protocolNumber(name: string): number {
  return PROTOCOL_NUMBERS[name] ?? Number(name);
}

/** The bits of `syn,rst`, as nft lists it, or of `syn | rst`. */
export function bitsOf(right: AnyExpression): readonly AnyExpression[] {
  if (typeof right !== "object") return [right];
  if ("set" in right) return right.set;
  return "|" in right ? right["|"].flatMap(bitsOf) : [right];
}
