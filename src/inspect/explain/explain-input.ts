import type { AffinityEntry } from "../../kernel/affinity-entry.ts";
import type { IgnoredService, LoadBalancersAddress } from "../../kube/decode/ignored-service.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { Host } from "../../trace/packet.ts";

/** All that an explanation is made from. */
export interface ExplainInput {
  readonly cache: ObjectCache;
  /** One for each family that is programmed. */
  readonly nodeContext: NodeContext;
  /** What the objects ask for. */
  readonly state: RulesetState;
  /** Services that are sound and none of ours. */
  readonly ignored: readonly IgnoredService[];
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
  readonly remembered: readonly AffinityEntry[];
}

/** What a input is made from. */
export type ExplainInputParts = Omit<ExplainInput, "host"> & {
  /** Addresses of the host that we run on, which may not be the node in question; canonical. */
  readonly hostAddresses: readonly string[];
};

/**
 * Puts a input together. The host's addresses count when it bears the node's own, or when nobody knows the
 * node's: objects may be looked at on another machine than the node.
 */
export function explainInputOf({ hostAddresses, ...parts }: ExplainInputParts): ExplainInput {
  const ofNode = parts.nodeContext.flatMap(({ nodeAddress, nodePorts }) => [
    nodeAddress,
    ...(nodePorts.kind === "addresses" ? nodePorts.addresses : []),
  ]);
  const known = ofNode.filter((address) => address !== "");
  const isHere = known.length === 0 || known.some((address) => hostAddresses.includes(address));
  return { ...parts, host: { localAddresses: new Set([...known, ...(isHere ? hostAddresses : [])]) } };
}
