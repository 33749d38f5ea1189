import { Address4, Address6 } from "ip-address";
import type { Expression, NftFamily } from "./json.ts";
import { asList, asNumber, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

/** Addresses from `first` to `last`, both included, as numbers. */
export interface AddressInterval {
  readonly first: bigint;
  readonly last: bigint;
}

/** Bits of an address. */
const WIDTH: Readonly<Record<NftFamily, number>> = { ip: 32, ip6: 128 };

/** An address as a number; throws NFT_OUTPUT when it is none of this family. */
export function addressNumber(family: NftFamily, address: string): bigint {
  try {
    return family === "ip" ? new Address4(address).bigInt() : new Address6(address).bigInt();
  } catch {
    throw notUnderstood(`${family} address`, address);
  }
}

/** A number as an address, the way nft prints it (RFC 5952 for IPv6). */
export function addressText(family: NftFamily, number: bigint): string {
  return family === "ip" ? Address4.fromBigInt(number).correctForm() : Address6.fromBigInt(number).correctForm();
}

/** The interval that an address, a prefix or a range stands for. Bits behind a prefix are ignored, as nft does. */
export function addressInterval(family: NftFamily, item: unknown): AddressInterval {
  if (typeof item === "string") {
    const number = addressNumber(family, item);
    return { first: number, last: number };
  }
  const [kind, body] = asTagged(item, "address");
  if (kind === "range") {
    const [first, last] = asList(body, "range").map((end) => addressNumber(family, asText(end, "range")));
    if (first === undefined || last === undefined) throw notUnderstood("range", item);
    return { first, last };
  }
  if (kind !== "prefix") throw notUnderstood("address", item);
  const prefix = asObjectOf(body, ["addr", "len"], "prefix");
  const hostBits = BigInt(WIDTH[family] - asNumber(prefix.len, "prefix length"));
  const first = (addressNumber(family, asText(prefix.addr, "prefix")) >> hostBits) << hostBits;
  return { first, last: first + (1n << hostBits) - 1n };
}

/**
 * The addresses of an anonymous set in canonical form: ascending, what overlaps or touches joined,
 * and no set around a lone member. The kernel joins in this way (nft 1.1.3), so that
 * `{10.0.0.0/9, 10.128.0.0/9}` is listed as `10.0.0.0/8`.
 */
export function canonicalAddresses(family: NftFamily, items: readonly unknown[]): Expression {
  const sorted = items.map((item) => addressInterval(family, item)).sort((a, b) => (a.first < b.first ? -1 : 1));
  const joined: AddressInterval[] = [];
  for (const next of sorted) {
    const last = joined.at(-1);
    if (last === undefined || next.first > last.last + 1n) joined.push(next);
    else if (next.last > last.last) joined[joined.length - 1] = { first: last.first, last: next.last };
  }
  const [lone, ...others] = joined.map((interval) => intervalExpression(family, interval));
  if (lone === undefined) throw notUnderstood("empty set", items);
  return others.length === 0 ? lone : { set: [lone, ...others] };
}

function intervalExpression(family: NftFamily, { first, last }: AddressInterval): Expression {
  const addr = addressText(family, first);
  if (first === last) return addr;
  const size = last - first + 1n;
  if ((size & (size - 1n)) !== 0n || first % size !== 0n) return { range: [addr, addressText(family, last)] };
  return { prefix: { addr, len: WIDTH[family] - (size.toString(2).length - 1) } };
}
