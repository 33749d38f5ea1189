import { assertNever } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import { concat, type matches, meta, payload, verdictMap } from "../nft/ast/expression.ts";
import type { Expression, Statement } from "../nft/ast/json.ts";
import { canonicalAddresses } from "../nft/canonical/address.ts";
import type { FamilyContext } from "./node-context.ts";
import { FRONTEND_MAPS, type FrontendKind } from "./sets.ts";

/** The packet's source and destination address. */
export const sourceAddress = (family: Family): Expression => payload(family, "saddr");
export const destinationAddress = (family: Family): Expression => payload(family, "daddr");

const PROTOCOL_AND_PORT: readonly Expression[] = [meta("l4proto"), payload("th", "dport")];

/** The parts of a frontend's key, as read from the packet: address, protocol and port; of a NodePort, without the address. */
export function frontendParts(kind: FrontendKind, family: Family): readonly Expression[] {
  return kind === "service" ? [destinationAddress(family), ...PROTOCOL_AND_PORT] : PROTOCOL_AND_PORT;
}

/** The key of a frontend as read from the packet. */
export function frontendKey(kind: FrontendKind, family: Family): Expression {
  return concat(...frontendParts(kind, family));
}

/** Looks a packet's frontend up in one of its verdict maps. */
export function frontendVmap(
  kind: FrontendKind,
  family: Family,
  map: "services" | "external" | "shortcut" | "noEndpoints",
): Statement {
  return verdictMap(frontendKey(kind, family), FRONTEND_MAPS[kind][map]);
}

/** The addresses of some CIDRs, one at least: in the canonical form, or every rule with them would seem changed. */
export function addressSet(family: Family, cidrs: readonly string[]): Expression {
  return canonicalAddresses(family, cidrs.map(prefixOf));
}

function prefixOf(cidr: string): Expression {
  const slash = cidr.indexOf("/");
  return { prefix: { addr: cidr.slice(0, slash), len: Number(cidr.slice(slash + 1)) } };
}

/**
 * Matches packets by whether they come from this cluster's pods.
 * @param compare `matches` for those that do, `differs` for those that do not
 * @returns undefined where pods cannot be told from others
 */
export function byPodOrigin(
  { localTraffic, family }: Pick<FamilyContext, "localTraffic" | "family">,
  compare: typeof matches,
): Statement | undefined {
  switch (localTraffic.kind) {
    case "unknown":
      return undefined;
    case "sources":
      return compare(sourceAddress(family), addressSet(family, localTraffic.cidrs));
    case "interface":
      return compare(meta("iifname"), localTraffic.pattern);
    default:
      return assertNever(localTraffic);
  }
}
