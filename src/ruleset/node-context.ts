import type { Family } from "../base/family.ts";
import type { TimeoutName } from "../model/connection-timeouts.ts";
import type { NodePortAddresses } from "../model/node.ts";
import type { PassiveHealthSetting } from "../model/passive-health.ts";
import type { Scheduler } from "../model/scheduler.ts";
import type { PortRangeAddresses, Service, ServiceCounters } from "../model/service.ts";
import type { Place } from "../model/topology.ts";
import { roundedAffinitySeconds } from "./setting-grids.ts";

/** How to recognise traffic from this cluster's pods (kube-proxy's `--detect-local-mode`). */
export type LocalTraffic =
  | { readonly kind: "unknown" }
  /** Canonical CIDRs, at least one. */
  | { readonly kind: "sources"; readonly cidrs: readonly string[] }
  /** An interface name; a trailing `*` matches any rest. */
  | { readonly kind: "interface"; readonly pattern: string };

/** Everything besides Services and EndpointSlices that the rules of one family depend on. */
export interface FamilyContext {
  readonly family: Family;
  readonly place: Place;
  /** The node's primary address, "" for none. */
  readonly nodeAddress: string;
  readonly localTraffic: LocalTraffic;
  readonly masqueradeAll: boolean;
  /** A number with one bit, such as 0x4000. */
  readonly masqueradeMark: number;
  readonly nodePorts: NodePortAddresses;
  /** The node's loopback address serves TCP NodePorts, through userspace (KEP-6032). */
  readonly loopbackNodePorts: boolean;
  /** Canonical CIDRs; packets to their unused addresses are dropped. */
  readonly serviceCIDRs: readonly string[];
  /** The default for Services that name no scheduler. */
  readonly scheduler: Scheduler;
  /** The default for Services without the annotation. */
  readonly passiveHealthCheck: PassiveHealthSetting;
  /** The node's connection timeouts in seconds; undefined if the kernel cannot set those of Services. */
  readonly connectionTimeouts: Readonly<Record<TimeoutName, number>> | undefined;
  /** The addresses at which port ranges are served. */
  readonly portRanges: PortRangeAddresses;
  /**
   * The frontend keys (`192.0.2.9 . tcp . 6443`) of the API servers that the daemon connects to, sorted.
   * Ranges never include them.
   */
  readonly apiServers: readonly string[];
  /** Maximum number of clients in an affinity map. */
  readonly affinityMapSize: number;
  /** Maximum timeout of session affinity, in seconds; longer ones of Services are cut to it. */
  readonly maxAffinitySeconds: number;
  /** Maximum number of recorded refusals, by client and frontend; 0 records none. */
  readonly refusalLogSize: number;
  /** Whether addresses of Services with endpoints answer echo requests. */
  readonly answerPing: boolean;
  /** Maximum number of clients, by service port, whose connections are counted. */
  readonly maxLimitedClients: number;
  /** Whether tables always have the rules that reset clients; otherwise only while an endpoint needs them. */
  readonly resetVanished: boolean;
  /** Mean number of a client's packets before its connection takes the fast path; undefined if none does. */
  readonly fastPathAfter: number | undefined;
  readonly counters: ServiceCounters;
  /** Maximum number of elements of one Service, in both families. */
  readonly maxServiceElements: number;
  /** Maximum number of elements of all Services, and of those of one namespace, in both families. */
  readonly maxElements: number;
  readonly maxNamespaceElements: number;
  /** Maximum number of sticky service ports in this family; one namespace may have half of them. */
  readonly maxStickyPorts: number;
  /** Maximum number of port ranges of one Service in both families, counted at each address. */
  readonly maxServicePortRanges: number;
  /** The same for all Services in this family; one namespace may have half of them. */
  readonly maxPortRanges: number;
  /** Maximum number of watched endpoints in this family; those of one namespace may be half of them. */
  readonly maxWatchedEndpoints: number;
  /**
   * Maximum number of different client limits in this family; one namespace may have half of them. 0 if the
   * kernel cannot count connections.
   */
  readonly maxClientLimits: number;
}

/** Everything else that rules depend on: one entry for each programmed family. */
export type NodeContext = readonly FamilyContext[];

/**
 * Time that clients of a Service keep their endpoint, in seconds; 0 for no affinity. Rounded up to one of
 * `AFFINITY_SECONDS`.
 */
export function affinitySecondsOf(
  { affinitySeconds }: Pick<Service, "affinitySeconds">,
  { maxAffinitySeconds }: Pick<FamilyContext, "maxAffinitySeconds">,
): number {
  return affinitySeconds === 0 ? 0 : roundedAffinitySeconds(affinitySeconds, maxAffinitySeconds);
}

/** The context of a family; undefined if it is not programmed. */
export function contextOf(nodeContext: NodeContext, family: Family): FamilyContext | undefined {
  return nodeContext.find((context) => context.family === family);
}
