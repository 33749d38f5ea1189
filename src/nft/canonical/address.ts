import {
  type AddressInterval,
  addressNumber,
  addressWidth,
  intervalText,
  joinIntervals,
  prefixInterval,
} from "../../base/address-interval.ts";
import type { Family } from "../../base/family.ts";
import { parseIPv6 } from "../../base/ipv6.ts";
import type { Expression } from "../ast/json.ts";
import { intervalJson } from "../elements.ts";
import { asList, asNumber, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

const IPV4 = /^\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}$/;

function parseAddress(family: Family, value: unknown): bigint {
  const address = asText(value, "address");
  const isAddress = family === "ip" ? IPV4.test(address) : parseIPv6(address) !== undefined;
  if (!isAddress) throw notUnderstood(`${family} address`, value);
  return addressNumber(family, address);
}

/** The interval of an address, a prefix or a range. Ignores bits after a prefix, as nft does. */
export function addressInterval(family: Family, item: unknown): AddressInterval {
  if (typeof item === "string") {
    const number = parseAddress(family, item);
    return { first: number, last: number };
  }
  const [kind, body] = asTagged(item, "address");
  if (kind === "range") {
    const [first, last] = asList(body, "range").map((end) => parseAddress(family, end));
    if (first === undefined || last === undefined) throw notUnderstood("range", item);
    return { first, last };
  }
  if (kind !== "prefix") throw notUnderstood("address", item);
  const { addr, len } = asObjectOf(body, ["addr", "len"], "prefix");
  const length = asNumber(len, "prefix length");
  if (length > addressWidth(family)) throw notUnderstood("prefix length", item);
  return prefixInterval(family, parseAddress(family, addr), length);
}

/**
 * The canonical form of an anonymous set of addresses: ascending, overlapping and adjacent members joined, no
 * set around a single member. The kernel joins in this way (nft 1.1.3): it lists `{10.0.0.0/9, 10.128.0.0/9}`
 * as `10.0.0.0/8`.
 */
export function canonicalAddresses(family: Family, items: readonly unknown[]): Expression {
  const joined = joinIntervals(items.map((item) => addressInterval(family, item)));
  const [lone, ...others] = joined.map((interval) => intervalJson(intervalText(family, interval)));
  if (lone === undefined) throw notUnderstood("empty set", items);
  return others.length === 0 ? lone : { set: [lone, ...others] };
}
