import { addressText, addressWidth, parseInterval } from "../../src/base/address-interval.ts";
import type { Family } from "../../src/base/family.ts";
import type { Endianness } from "../../src/netlink/attributes.ts";
import {
  type EncodedElement,
  encodedAddress,
  encodedParts,
  hasEndElements,
} from "../../src/netlink/element-bytes.ts";
import type { ElementSet, SetSpec } from "../../src/nft/ast/ruleset.ts";

/** Returns the kernel's elements for those of one of our sets or maps, in no order. */
export function* encodedSet(
  { spec, elements }: ElementSet,
  endianness: Endianness,
): Generator<EncodedElement> {
  if (hasEndElements(spec)) yield* encodedIntervals(spec, elements.keys());
  else for (const [key, value] of elements) yield encodedElement(spec, key, value, endianness);
}

/**
 * Encodes an element as the kernel stores it. Not for sets with end elements ({@link hasEndElements}), for
 * which {@link encodedSet} needs all intervals.
 * @param key, value canonical text (see ruleset.ts)
 */
export function encodedElement(
  spec: SetSpec,
  key: string,
  value: string,
  endianness: Endianness,
): EncodedElement {
  const encodedValue =
    spec.value === undefined || spec.value === "verdict"
      ? value
      : encodedParts(spec.value, value, endianness);
  if (!spec.interval)
    return { key: encodedParts(spec.key, key, endianness), isEnd: false, value: encodedValue };
  const dash = key.lastIndexOf("-");
  const last = key.slice(0, key.lastIndexOf(" ") + 1) + key.slice(dash + 1);
  return {
    key: encodedParts(spec.key, key.slice(0, dash), endianness),
    keyEnd: encodedParts(spec.key, last, endianness),
    isEnd: false,
    value: encodedValue,
  };
}

/** Sets with end elements contain only addresses, in network byte order. */
function* encodedIntervals({ key: [type] }: SetSpec, keys: Iterable<string>): Generator<EncodedElement> {
  const family = type === "ipv6_addr" ? "ip6" : "ip";
  let isEmpty = true;
  let hasFirst = false;
  for (const text of keys) {
    const { first, last } = parseInterval(family, text);
    isEmpty = false;
    if (first === 0n) hasFirst = true;
    yield { key: encodedNumber(family, first), isEnd: false, value: "" };
    // A range that ends at the last possible address has no end element.
    if (last + 1n < 1n << BigInt(addressWidth(family))) {
      yield { key: encodedNumber(family, last + 1n), isEnd: true, value: "" };
    }
  }
  // nft also adds an end element before the first interval.
  if (!isEmpty && !hasFirst) yield { key: encodedNumber(family, 0n), isEnd: true, value: "" };
}

function encodedNumber(family: Family, number: bigint): string {
  return encodedAddress(family, addressText(family, number));
}
