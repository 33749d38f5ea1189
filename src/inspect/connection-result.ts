import { addToCount } from "../base/group-by.ts";
import { joinParts } from "../nft/elements.ts";
import type { Summary, WeightedDestination } from "../trace/outcome.ts";

/**
 * The outcome of a connection; `varies` when it depends on a random choice, `not-understood` if a rule that
 * nft-proxy does not understand may decide.
 */
export type Result = "served" | "not-handled" | "refused" | "dropped" | "varies" | "not-understood";

/** Classifies the outcomes of a connection. */
export function resultOf({ destinations, refused, dropped, notUnderstood }: Summary): Result {
  if (notUnderstood > 0) return "not-understood";
  if (destinations.length === 0) return dropped === 0 ? "refused" : refused === 0 ? "dropped" : "varies";
  if (refused + dropped > 0) return "varies";
  const translated = destinations.filter((one) => one.translated).length;
  return translated === destinations.length ? "served" : translated === 0 ? "not-handled" : "varies";
}

/** A share, rounded, because sums of fractions are rarely exact. */
export function roundedSum(share: number): number {
  return Math.round(share * 1e6) / 1e6;
}

/** The shares of connections by endpoint: `10.244.1.5 . 8080`. */
export function sharesByEndpoint(destinations: readonly WeightedDestination[]): Map<string, number> {
  const shares = new Map<string, number>();
  for (const { address, port, probability } of destinations)
    addToCount(shares, joinParts(address, port), probability);
  return shares;
}
