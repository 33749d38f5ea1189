import type { OtherTables } from "../../kernel/other-tables.ts";
import type { UnservedServices } from "../../kube/decode/ignored-service.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { DaemonState } from "../../socket/daemon-protocol.ts";
import type { DynamicEntry } from "../../trace/evaluate.ts";
import type { Host } from "../../trace/packet.ts";

/** The input of an explanation. */
export interface ExplainInput extends Pick<UnservedServices, "ignored" | "loadBalancers"> {
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
  /** The node's own addresses. */
  readonly host: Host;
  /** The daemon's data about endpoints; absent without a daemon. */
  readonly daemon?: Pick<DaemonState, "features" | "ejected" | "now"> | undefined;
  /** The kernel's tables. If present, they are followed instead of the desired state. */
  readonly live?: LiveRules | undefined;
}

/**
 * The affinity entry of one client, an element of a map that packets fill. The key has the client and the id
 * of the Service port's lists; the value is the endpoint's id.
 */
export interface AffinityEntry extends DynamicEntry {
  /** The time until it expires, as text: `9m58s`. */
  readonly expires: string;
}

/** The kernel's tables, and other facts of the kernel that `--live` uses. */
export interface LiveRules {
  readonly ruleset: Ruleset;
  /** Absent if only nft-proxy's own are followed. */
  readonly otherTables?: OtherTables;
  /** Returns the interface to which an address is routed; undefined if unknown. */
  readonly interfaceTo: (address: string) => string | undefined;
  /** The affinity entries of the client in question; absent if none were looked up. */
  readonly affinityEntries?: readonly AffinityEntry[];
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
