import type { FeatureReason } from "../../features/seam/feature.ts";
import type { ExclusionReason } from "../../model/endpoint-choice.ts";
import type { Protocol, ServiceName } from "../../model/ids.ts";
import type { RefusalCause } from "../../ruleset/refusal-causes.ts";
import type { Hook } from "../../trace/outcome.ts";
import type { EchoProtocol } from "../../trace/packet.ts";
import type { Result } from "../connection-result.ts";

/** The cause of an outcome; a stable word for scripts. */
export type Cause =
  /**
   * The causes that metrics and Events name, too. For an address without a Service, this type has finer
   * causes.
   */
  | Exclude<RefusalCause, "no-service">
  /** Topology hints exclude ready endpoints. */
  | "hints"
  /** No endpoint is ready. Terminating endpoints that still serve are used as fallback. */
  | "terminating-endpoints"
  /** Several Services want the frontend. The oldest has it. */
  | "conflict"
  | "not-ready"
  /** The EndpointSlices have endpoints, but no port with the Service port's name and protocol. */
  | "port-name"
  /** The address is in a ServiceCIDR, but no Service has it. */
  | "unallocated-address"
  /** nft-proxy does not handle the Service that has the address. */
  | "other-proxy"
  | "headless"
  | "external-name"
  | "not-served"
  /** The address belongs to the Service's load balancer (ipMode: Proxy). */
  | "load-balancer"
  /** The Service exceeds its budget and therefore has no rules. */
  | "over-budget"
  /** The port is a NodePort, but is not served at this address. */
  | "node-port-address"
  | "loopback"
  | "not-a-service"
  /** The kernel differs from the desired state. */
  | "not-programmed"
  /** The objects are unavailable, and the rules alone do not show the cause. */
  | "unknown"
  /** A table of other software decides. */
  | "other-table"
  /** Other software has a rule that may decide, and that nft-proxy does not understand. */
  | "not-understood"
  /** The rules produce this outcome, and no object explains it. */
  | "rules";

/** The connection or echo request to explain. */
export interface Connection {
  readonly from: {
    readonly address: string;
    readonly at: "pod" | "node" | "outside";
    /** Whether the user gave the address, or it represents all clients of this kind. */
    readonly known: "given" | "assumed";
  };
  readonly to: string;
  /** 1..65535; 0 for an echo request. */
  readonly port: number;
  /** `icmp` or `icmpv6`: an echo request (ping). */
  readonly protocol: Protocol | EchoProtocol;
}

/** The frontend that the connection is made to. */
export interface ExplainedFrontend {
  /**
   * `10.96.0.10 . tcp . 53`, `10.96.0.10 . tcp . 8000-8099` for a range, or `0.0.0.0 . tcp . 30080` for a
   * NodePort.
   */
  readonly key: string;
  readonly origin: "cluster-ip" | "external-ip" | "load-balancer-ip" | "node-port";
  readonly service: ServiceName;
  /** The Service port's name, "" for a nameless one. */
  readonly portName: string;
  /** Whether this connection may go to endpoints of the whole cluster, or of this node only. */
  readonly endpointsOf: "cluster" | "local";
  /** Seconds for which a client keeps its endpoint, 0 for no affinity. */
  readonly affinitySeconds: number;
  /** The CIDRs of allowed clients; absent if all are allowed. */
  readonly sourceRanges?: readonly string[];
  /** The other Services that want the frontend and do not get it. */
  readonly losers: readonly ServiceName[];
}

/** A rule that the connection passed, and its effect. */
export interface ExplainedStep {
  readonly hook: Hook;
  /** Family and name, such as `inet firewalld`; absent for nft-proxy's own table. */
  readonly table?: string;
  readonly chain: string;
  /** As `nft list` prints it. */
  readonly rule: string;
  /** The elements that its lookups found, as nft prints them: `balancers { 8000:44 : goto balance-2 }`. */
  readonly elements: readonly string[];
  /** The meaning, without a full stop. */
  readonly message: string;
  /** The share of connections that reach this rule, 0 to 1. */
  readonly probability: number;
}

/** An endpoint of the Service port, or one that only the kernel has. */
export interface ExplainedEndpoint {
  readonly address: string;
  /** 1..65535 */
  readonly port: number;
  /** "" if unknown. */
  readonly node: string;
  readonly zone: string;
  /** `namespace/name`, "" if unknown. */
  readonly pod: string;
  /** The share of connections that go there, 0 to 1. */
  readonly probability: number;
  /** Why it gets no connections; absent if it gets some. */
  readonly excluded?: ExcludedEndpoint;
}

/** The reason why an endpoint gets no connections: a word for scripts, and a message for people. */
export interface ExcludedEndpoint {
  readonly reason: ExclusionReason | "affinity" | "hash" | "not-reached" | "not-understood" | "not-in-kernel";
  readonly message: string;
}

/** A further fact about the connection: its topic, and a sentence. */
export interface Note {
  readonly topic: string;
  readonly message: string;
}

/** The outcome, its cause and the action to take. */
export interface Verdict extends FeatureReason {
  readonly result: Result;
  readonly cause: Cause;
}

/** The explanation of one connection. */
export interface Explanation {
  readonly connection: Connection;
  /** The node whose rules the connection passes. */
  readonly node: string;
  /** Whether the desired rules or those in the kernel were followed. */
  readonly rules: "desired" | "live";
  /** Absent when no Service has this destination. */
  readonly frontend?: ExplainedFrontend;
  readonly steps: readonly ExplainedStep[];
  readonly endpoints: readonly ExplainedEndpoint[];
  readonly notes: readonly Note[];
  /**
   * The differences between the kernel and the desired state of this frontend; absent if they were not
   * compared.
   */
  readonly differences?: readonly string[];
  readonly verdict: Verdict;
}
