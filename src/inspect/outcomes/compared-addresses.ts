import {
  type AddressInterval,
  addressText,
  addressWidth,
  parseInterval,
} from "../../base/address-interval.ts";
import type { Family } from "../../base/family.ts";
import type { AnyExpression, AnySet, AnyTable } from "../../nft/ast/any-table.ts";
import { addressInterval } from "../../nft/canonical/address.ts";

/**
 * Lists the addresses on both sides of the ends of every prefix, range and address with which rules compare a
 * packet's source or destination. If two sets of rules compare with different values, some of these addresses
 * show it.
 * @param isIncluded the chains whose rules count
 */
export function comparedAddresses(
  tables: readonly AnyTable[],
  field: "saddr" | "daddr",
  isIncluded: (chain: string) => boolean,
): ReadonlySet<string> {
  const found = tables.flatMap(({ family: ofTable, chains, sets }) => {
    const family = ofTable === "ip6" ? "ip6" : "ip";
    const included = [...chains.values()].filter(({ name }) => isIncluded(name));
    return included
      .flatMap(({ rules }) => rules.flat())
      .flatMap((statement) =>
        "match" in statement && isField(statement.match.left, field)
          ? edgesOf(family, statement.match.right, sets)
          : [],
      );
  });
  return new Set(found);
}

function isField(left: AnyExpression, field: string): boolean {
  return (
    typeof left === "object" && "payload" in left && "field" in left.payload && left.payload.field === field
  );
}

function isInterval(right: AnyExpression): boolean {
  return typeof right === "object" && ("prefix" in right || "range" in right);
}

function edgesOf(family: Family, right: AnyExpression, sets: AnyTable["sets"]): string[] {
  if (typeof right === "string" && right.startsWith("@")) {
    const set = sets.get(right.slice(1));
    return set === undefined ? [] : edgesOfSet(family, set);
  }
  if (typeof right === "object" && "set" in right)
    return right.set.flatMap((member) => edgesOf(family, member, sets));
  const isAddress = typeof right === "string" || isInterval(right);
  return isAddress ? bothSides(family, addressInterval(family, right)) : [];
}

/** The ends of an interval, and the addresses next to it. */
export function bothSides(family: Family, { first, last }: AddressInterval): string[] {
  const most = (1n << BigInt(addressWidth(family))) - 1n;
  return [first - 1n, first, last, last + 1n]
    .filter((number) => number > 0n && number < most)
    .map((number) => addressText(family, number));
}

/** Of a set of ranges; other sets have addresses of Services and of the node. */
function edgesOfSet(family: Family, { spec, elements, intervals = [] }: AnySet): string[] {
  const own = spec.interval ? Array.from(elements.keys(), (key) => parseInterval(family, key)) : [];
  const listed = intervals.flatMap(({ parts: [part] }) => (part?.kind === "addresses" ? [part] : []));
  return [...own, ...listed].flatMap((interval) => bothSides(family, interval));
}
