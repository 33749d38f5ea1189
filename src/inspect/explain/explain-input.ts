import type { VanishedEndpoint } from "../../conntrack/vanished-endpoints.ts";
import type { AffinityEntry } from "../../kernel/affinity-entry.ts";
import type { OtherTables } from "../../kernel/other-tables.ts";
import type { IgnoredService, LoadBalancersAddress } from "../../kube/decode/ignored-service.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { Host } from "../../trace/packet.ts";

/** Everything that an explanation is derived from. */
export interface ExplainInput {
  readonly cache: ObjectCache;
  /** One for each family that is programmed. */
  readonly nodeContext: NodeContext;
  /** False when the objects could not be loaded: the cache is empty, and only the kernel's tables are followed. */
  readonly objectsKnown: boolean;
  /** The desired state. */
  readonly state: RulesetState;
  /** Valid Services that nft-proxy does not handle. */
  readonly ignored: readonly IgnoredService[];
  /** Addresses of Services that load balancers keep to themselves. */
  readonly loadBalancers: readonly LoadBalancersAddress[];
  /** The node's own addresses. */
  readonly host: Host;
  /** What the daemon knows of endpoints whose clients are reset; absent without one, and where that is off. */
  readonly vanished?: KnownVanished;
  /** The kernel's tables, to be followed in place of the desired state. */
  readonly live?: LiveRules;
}

/** Endpoints that left every EndpointSlice, those that left first first. */
export interface KnownVanished {
  readonly endpoints: readonly VanishedEndpoint[];
  /** When that was, milliseconds since 1970. */
  readonly now: number;
}

/** The kernel's tables. */
export interface LiveRules {
  readonly ruleset: Ruleset;
  readonly otherTables: OtherTables;
  /** Returns the interface to which an address is routed; undefined when that is not known. */
  readonly interfaceTo: (address: string) => string | undefined;
  /** The affinity entries of the client in question. */
  readonly affinityEntries: readonly AffinityEntry[];
}

/**
 * The node's own addresses. Those of the host are used when the node's address is among them, or when the node's
 * address is not known: the command may run on another machine than the node.
 */
export function hostOf(nodeContext: NodeContext, hostAddresses: readonly string[]): Host {
  const ofNode = nodeContext.flatMap(({ nodeAddress, nodePorts }) => [
    nodeAddress,
    ...(nodePorts.kind === "addresses" ? nodePorts.addresses : []),
  ]);
  const known = ofNode.filter((address) => address !== "");
  const isHere = known.length === 0 || known.some((address) => hostAddresses.includes(address));
  return { localAddresses: new Set([...known, ...(isHere ? hostAddresses : [])]) };
}
