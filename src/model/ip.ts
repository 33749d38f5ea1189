import {
  type AddressInterval,
  addressNumber,
  addressText,
  addressWidth,
  parseInterval,
  prefixInterval,
} from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import { formatIPv6, parseIPv6 } from "../base/ipv6.ts";

/** No leading zeros: some parsers read `010.1.1.1` as 8.1.1.1, others as 10.1.1.1 (CVE-2021-29923). */
const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$/;
const MULTICAST = /^(?:22[4-9]|23\d)\.|^ff[\da-f]{2}:/;
const LINK_LOCAL = /^169\.254\.|^fe[89ab][\da-f]:/;
const PREFIX_LENGTH = /^(?:0|[1-9]\d{0,2})$/;

/** The family of a valid address or CIDR. */
export function familyOf(address: string): Family {
  return address.includes(":") ? "ip6" : "ip";
}

/**
 * An address in the form nft prints, or undefined when `text` is not one (or not one of `family`). Strict: no
 * leading zeros, zone, port, prefix length or blanks. IPv4-mapped IPv6 is refused, because it represents an
 * address of the other family.
 */
export function canonicalAddress(text: string, family?: Family): string | undefined {
  if (IPV4.test(text)) return family === "ip6" ? undefined : text;
  if (family === "ip" || !text.includes(":")) return undefined;
  const groups = parseIPv6(text);
  if (groups === undefined) return undefined;
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0);
  return isMapped ? undefined : formatIPv6(groups);
}

/** First and last address of a canonical CIDR, as numbers. */
export function boundsOf(cidr: string): AddressInterval {
  return parseInterval(familyOf(cidr), cidr);
}

/**
 * A CIDR as `network/length`, or undefined when `text` is not one (or not one of `family`). Bits beyond the
 * length are cleared, as kube-proxy does.
 */
export function canonicalCidr(text: string, family?: Family): string | undefined {
  const slash = text.indexOf("/");
  const address = canonicalAddress(text.slice(0, Math.max(slash, 0)), family);
  const length = text.slice(slash + 1);
  if (address === undefined || !PREFIX_LENGTH.test(length)) return undefined;
  const own = familyOf(address);
  if (Number(length) > addressWidth(own)) return undefined;
  if (Number(length) === addressWidth(own)) return `${address}/${length}`;
  return `${addressText(own, prefixInterval(own, addressNumber(own, address), Number(length)).first)}/${length}`;
}

/** Whether a canonical address lies in a canonical CIDR; false across families. */
export function cidrContains(cidr: string, address: string): boolean {
  if (familyOf(cidr) !== familyOf(address)) return false;
  const value = addressNumber(familyOf(address), address);
  const { first, last } = boundsOf(cidr);
  return first <= value && value <= last;
}

/** Orders canonical addresses by number, IPv4 first; for `sort`. */
export function compareAddresses(a: string, b: string): number {
  if (a === b) return 0;
  const family = familyOf(a);
  if (family !== familyOf(b)) return family === "ip" ? -1 : 1;
  return addressNumber(family, a) < addressNumber(family, b) ? -1 : 1;
}

/** 127.0.0.0/8 and ::1. */
export function isLoopback(address: string): boolean {
  return address.startsWith("127.") || address === "::1";
}

/** 224.0.0.0/4 and ff00::/8. */
export function isMulticast(address: string): boolean {
  return MULTICAST.test(address);
}

/** 0.0.0.0 and ::. */
export function isUnspecified(address: string): boolean {
  return address === "0.0.0.0" || address === "::";
}

/** 169.254.0.0/16 and fe80::/10. */
export function isLinkLocal(address: string): boolean {
  return LINK_LOCAL.test(address);
}
