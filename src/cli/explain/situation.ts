import type { RememberedClient } from "../../kernel/remembered-client.ts";
import type { LoadBalancersAddress, PassedOverService } from "../../kube/passed-over-service.ts";
import type { World } from "../../model/world.ts";
import type { Ruleset } from "../../nft/ruleset.ts";
import type { FamilyContext } from "../../ruleset/context.ts";
import type { RulesetState } from "../../ruleset/state.ts";
import type { Host } from "../../trace/packet.ts";

/** All that an explanation is made from. */
export interface Situation {
  readonly world: World;
  /** One for each family that is programmed. */
  readonly contexts: readonly FamilyContext[];
  /** What the objects ask for. */
  readonly state: RulesetState;
  /** Services that are sound and none of ours. */
  readonly passedOver: readonly PassedOverService[];
  /** Addresses of Services that load balancers keep to themselves. */
  readonly loadBalancers: readonly LoadBalancersAddress[];
  /** The node's own addresses. */
  readonly host: Host;
  /** The kernel's tables, to be followed in place of what the objects ask for. */
  readonly live?: LiveRules;
}

/** The kernel's tables. */
export interface LiveRules {
  readonly ruleset: Ruleset;
  /** Whether the objects are known, so that the tables can be held against what these ask for. */
  readonly comparable: boolean;
  /** What session affinity remembers of the client in question. */
  readonly remembered: readonly RememberedClient[];
}

/** What a situation is made from. */
export type SituationParts = Omit<Situation, "host"> & {
  /** Addresses of the host that we run on, which may not be the node in question; canonical. */
  readonly hostAddresses: readonly string[];
};

/**
 * Puts a situation together. The host's addresses count when it bears the node's own, or when nobody knows the
 * node's: objects may be looked at on another machine than the node.
 */
export function situationOf({ hostAddresses, ...parts }: SituationParts): Situation {
  const ofNode = parts.contexts.flatMap(({ nodeAddress, nodePorts }) => [
    nodeAddress,
    ...(nodePorts.kind === "addresses" ? nodePorts.addresses : []),
  ]);
  const known = ofNode.filter((address) => address !== "");
  const isHere = known.length === 0 || known.some((address) => hostAddresses.includes(address));
  return { ...parts, host: { localAddresses: new Set([...known, ...(isHere ? hostAddresses : [])]) } };
}
