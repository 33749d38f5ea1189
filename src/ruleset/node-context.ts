import type { Family } from "../base/family.ts";
import type { NodePortAddresses } from "../model/node.ts";
import type { Scheduler } from "../model/scheduler.ts";
import type { PortRangeAddresses, Service, ServiceCounters } from "../model/service.ts";
import type { Place } from "../model/topology.ts";

/** How traffic from this cluster's pods is told from other traffic (kube-proxy's `--detect-local-mode`). */
export type LocalTraffic =
  | { readonly kind: "unknown" }
  /** Canonical CIDRs, one at least. */
  | { readonly kind: "sources"; readonly cidrs: readonly string[] }
  /** An interface name; a trailing `*` stands for anything. */
  | { readonly kind: "interface"; readonly pattern: string };

/** All that the rules of one family depend on besides Services and EndpointSlices. */
export interface FamilyContext {
  readonly family: Family;
  readonly place: Place;
  /** The node's primary address, "" for none. */
  readonly nodeAddress: string;
  readonly localTraffic: LocalTraffic;
  readonly masqueradeAll: boolean;
  /** One bit, as a number: 0x4000. */
  readonly masqueradeMark: number;
  readonly nodePorts: NodePortAddresses;
  /** The node's loopback address serves TCP NodePorts, through userspace (KEP-6032). */
  readonly loopbackNodePorts: boolean;
  /** Canonical CIDRs; addresses in them that no Service has are dropped. */
  readonly serviceCIDRs: readonly string[];
  /** Of Services that name none. */
  readonly scheduler: Scheduler;
  /** The addresses at which ranges of ports are served. */
  readonly portRanges: PortRangeAddresses;
  /** The frontend keys (`192.0.2.9 . tcp . 6443`) of the API servers that the daemon connects to: no range takes them. Sorted. */
  readonly apiServers: readonly string[];
  /** Most clients that an affinity map remembers. */
  readonly affinityMapSize: number;
  /** The longest timeout of session affinity, seconds; longer ones of Services are cut to it. */
  readonly maxAffinitySeconds: number;
  /** Most refusals, by client and frontend, that are remembered; 0 records none. */
  readonly refusalLogSize: number;
  /** Clients of TCP endpoints that left every EndpointSlice are reset. */
  readonly resetVanished: boolean;
  /** Packets of a client after which, on average, its connection takes the fast path; undefined where none does. */
  readonly fastPathAfter: number | undefined;
  readonly counters: ServiceCounters;
  /** The most elements that one Service may have, in both families. */
  readonly maxServiceElements: number;
  /** The most elements that all Services may have together, and those of one namespace, in both families. */
  readonly maxElements: number;
  readonly maxNamespaceElements: number;
  /** The most service ports of this family that may have session affinity; half of them may be of one namespace. */
  readonly maxStickyPorts: number;
  /** The most ranges of ports, counted at each address, that one Service may have in both families. */
  readonly maxServicePortRanges: number;
  /** The most that all Services may have in this family; half of them may be of one namespace. */
  readonly maxPortRanges: number;
}

/** All that rules depend on besides Services and EndpointSlices: one entry for each family that is programmed. */
export type NodeContext = readonly FamilyContext[];

/** Seconds for which clients of a Service keep their endpoint; 0 for no affinity. */
export function affinitySecondsOf(
  { affinitySeconds }: Pick<Service, "affinitySeconds">,
  { maxAffinitySeconds }: Pick<FamilyContext, "maxAffinitySeconds">,
): number {
  return Math.min(affinitySeconds, maxAffinitySeconds);
}

/** The context of a family; undefined where it is not programmed. */
export function contextOf(nodeContext: NodeContext, family: Family): FamilyContext | undefined {
  return nodeContext.find((context) => context.family === family);
}
