import { asNumber, asText } from "./shape.ts";

/**
 * How a constant is to be read; nft's JSON does not say, the thing it is compared with does.
 * `ip` and `ip6` are addresses, `text` is kept as it is (interface names, conntrack states).
 */
export type ConstantType = "ip" | "ip6" | "classid" | "number" | "protocol" | "text";

const PROTOCOL_NAMES: Readonly<Record<number, string>> = { 6: "tcp", 17: "udp", 132: "sctp" };

/**
 * A classid as its 32-bit number. nft prints 0 as `none`, 2^32-1 as `root`, others as hexadecimal
 * `major:minor` where either half may be omitted (tc(8)); a number passes.
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

/** A transport protocol by its name; nft prints the number where it finds no protocols database. */
export function parseProtocol(value: unknown): string {
  if (typeof value === "string" && !/^\d+$/.test(value)) return value;
  const number = asNumber(value, "protocol");
  return PROTOCOL_NAMES[number] ?? String(number);
}
