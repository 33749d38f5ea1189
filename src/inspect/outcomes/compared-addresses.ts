import { addressText, addressWidth } from "../../base/address-interval.ts";
import type { Family } from "../../base/family.ts";
import type { AnonymousSet, AnyExpression, AnyTable } from "../../nft/ast/any-table.ts";
import { addressInterval } from "../../nft/canonical/address.ts";

/**
 * Lists the addresses on both sides of the ends of every prefix, range and address with which rules compare a packet's
 * source or destination: wherever two sets of rules compare with different ones, some of these tell them apart.
 * @param isIncluded the chains whose rules count
 */
export function comparedAddresses(
  tables: readonly AnyTable[],
  field: "saddr" | "daddr",
  isIncluded: (chain: string) => boolean,
): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { family, chains } of tables) {
    for (const { name, rules } of chains.values()) {
      if (!isIncluded(name)) continue;
      for (const rule of rules) {
        for (const statement of rule) {
          if (!("match" in statement) || !isField(statement.match.left, field)) continue;
          for (const edge of edgesOf(family === "ip6" ? "ip6" : "ip", statement.match.right)) found.add(edge);
        }
      }
    }
  }
  return found;
}

function isField(left: AnyExpression, field: string): boolean {
  return typeof left === "object" && "payload" in left && left.payload.field === field;
}

function isInterval(right: AnyExpression | AnonymousSet): boolean {
  return typeof right === "object" && ("prefix" in right || "range" in right);
}

function edgesOf(family: Family, right: AnyExpression | AnonymousSet): string[] {
  if (typeof right === "object" && "set" in right) return right.set.flatMap((member) => edgesOf(family, member));
  const isAddress = typeof right === "string" ? !right.startsWith("@") : isInterval(right);
  if (!isAddress) return [];
  const { first, last } = addressInterval(family, right);
  const most = (1n << BigInt(addressWidth(family))) - 1n;
  return [first - 1n, first, last, last + 1n]
    .filter((number) => number > 0n && number < most)
    .map((number) => addressText(family, number));
}
