import type { DrainingEndpoint } from "../../conntrack/draining-endpoints.ts";
import type { VanishedEndpoint } from "../../conntrack/vanished-endpoints.ts";
import type { AffinityEntry } from "../../kernel/affinity-entry.ts";
import type { OtherTables } from "../../kernel/other-tables.ts";
import type { IgnoredService, LoadBalancersAddress } from "../../kube/decode/ignored-service.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { EjectedEndpoint } from "../../model/passive-health.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { Host } from "../../trace/packet.ts";

/** The input of an explanation. */
export interface ExplainInput {
  readonly cache: ObjectCache;
  /** Has one context for each programmed family. */
  readonly nodeContext: NodeContext;
  /**
   * False if the objects could not be loaded. The cache is then empty, and only the kernel's tables are
   * followed.
   */
  readonly objectsKnown: boolean;
  /** The desired state. */
  readonly state: RulesetState;
  /** Valid Services that nft-proxy does not handle. */
  readonly ignored: readonly IgnoredService[];
  /** Addresses of Services that only their load balancers serve (ipMode: Proxy). */
  readonly loadBalancers: readonly LoadBalancersAddress[];
  /** The node's own addresses. */
  readonly host: Host;
  /** The endpoints whose clients are reset, or may be soon; absent without a daemon. */
  readonly vanished?: KnownVanished | undefined;
  /** The endpoints that the daemon ejected; absent without one. */
  readonly ejected?: KnownEjected | undefined;
  /** The kernel's tables. If present, they are followed instead of the desired state. */
  readonly live?: LiveRules | undefined;
}

/** Endpoints whose clients are reset, in the order in which they left. */
export interface KnownVanished {
  readonly endpoints: readonly VanishedEndpoint[];
  /** Terminating endpoints of Services with a drain timeout. */
  readonly draining: readonly DrainingEndpoint[];
  /** The time of this reading, milliseconds since 1970. */
  readonly now: number;
}

/** Endpoints that do not answer the node, those ejected first first. */
export interface KnownEjected {
  readonly endpoints: readonly EjectedEndpoint[];
  /** When that was, milliseconds since 1970. */
  readonly now: number;
}

/** The kernel's tables, and other facts of the kernel that `--live` uses. */
export interface LiveRules {
  readonly ruleset: Ruleset;
  readonly otherTables: OtherTables;
  /** Returns the interface to which an address is routed; undefined if unknown. */
  readonly interfaceTo: (address: string) => string | undefined;
  /** The affinity entries of the client in question. */
  readonly affinityEntries: readonly AffinityEntry[];
}

/**
 * The node's own addresses. The addresses of this host are included if the node's address is among them or
 * unknown. Otherwise the command probably runs on another machine.
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
