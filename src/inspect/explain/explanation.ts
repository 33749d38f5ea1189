import type { ServiceName } from "../../model/ids.ts";
import type { RefusalReason } from "../../ruleset/refusal-reason.ts";
import type { Hook } from "../../trace/outcome.ts";
import type { Result } from "../connection-result.ts";

/** The cause of an outcome; a stable word for scripts. */
export type Cause =
  /** Those that metrics and Events name, too; of an address that no Service has, one of those below. */
  | Exclude<RefusalReason, "no-service">
  /** Hints leave ready endpoints out. */
  | "hints"
  /** None is ready; terminating endpoints that still serve are used as fallback. */
  | "terminating-endpoints"
  /** Several Services claim the frontend; the oldest has it. */
  | "conflict"
  | "not-ready"
  /** The EndpointSlices have endpoints, and no port of the Service port's name and protocol. */
  | "port-name"
  /** In a ServiceCIDR, and no Service has it. */
  | "unallocated-address"
  /** nft-proxy does not handle the Service that has the address. */
  | "other-proxy"
  | "headless"
  | "external-name"
  | "not-served"
  /** In a range of ports of a Service, and ranges are not served there. */
  | "port-ranges"
  /** The address belongs to the Service's load balancer (ipMode: Proxy). */
  | "load-balancer"
  /** The Service exceeds its budget, and has no rules. */
  | "over-budget"
  /** A NodePort, but not of this address. */
  | "node-port-address"
  | "loopback"
  | "not-a-service"
  /** The kernel differs from the desired state. */
  | "not-programmed"
  /** The objects are unavailable, and the rules alone do not tell. */
  | "unknown"
  /** A table of other software decides. */
  | "other-table"
  /** A table of other software has a rule that is not understood, and may decide. */
  | "not-understood"
  /** The rules decide so, and no object explains it. */
  | "rules";

/** The connection in question. */
export interface Connection {
  readonly from: {
    readonly address: string;
    readonly at: "pod" | "node" | "outside";
    /** How we came to know both: the address was given, or it stands for all of its kind. */
    readonly known: "given" | "assumed";
  };
  readonly to: string;
  /** 1..65535 */
  readonly port: number;
  readonly protocol: "tcp" | "udp" | "sctp";
}

/** The frontend that the connection is made to. */
export interface ExplainedFrontend {
  /** `10.96.0.10 . tcp . 53`, `10.96.0.10 . tcp . 8000-8099` for a range, or `0.0.0.0 . tcp . 30080` for a NodePort. */
  readonly key: string;
  readonly origin: "cluster-ip" | "external-ip" | "load-balancer-ip" | "node-port";
  readonly service: ServiceName;
  /** The Service port's name, "" for a nameless one. */
  readonly portName: string;
  /** Whether this connection may go to endpoints of the whole cluster, or of this node only. */
  readonly endpointsOf: "cluster" | "local";
  /** Seconds for which a client keeps its endpoint, 0 for no affinity. */
  readonly affinitySeconds: number;
  /** The CIDRs that may come; absent when all may. */
  readonly sourceRanges?: readonly string[];
  /** The other Services that claim the frontend, and lost it to this one. */
  readonly losers: readonly ServiceName[];
}

/** One rule on the way, and what it did. */
export interface ExplainedStep {
  readonly hook: Hook;
  /** Family and name, such as `inet firewalld`; absent for nft-proxy's own table. */
  readonly table?: string;
  readonly chain: string;
  /** As `nft list` prints it. */
  readonly rule: string;
  /** The elements that it found, as nft prints them: `balancers { 8000:44 : goto balance-2 }`. */
  readonly elements: readonly string[];
  /** The meaning, without a full stop. */
  readonly message: string;
  /** How many connections come here, 0 to 1. */
  readonly probability: number;
}

/** An endpoint of the Service port, or one that only the kernel has. */
export interface ExplainedEndpoint {
  readonly address: string;
  /** 1..65535 */
  readonly port: number;
  /** "" when not known. */
  readonly node: string;
  readonly zone: string;
  /** `namespace/name`, "" when not known. */
  readonly pod: string;
  /** How many connections go there, 0 to 1. */
  readonly probability: number;
  /** Why none do; absent when some do. */
  readonly excluded?: ExcludedEndpoint;
}

/** Why an endpoint gets no connections: a reason for scripts, and a message for people. */
export interface ExcludedEndpoint {
  readonly reason:
    | "not-ready"
    | "terminating"
    | "not-serving"
    | "not-local"
    | "drained"
    | "other-zone"
    | "other-node"
    | "affinity"
    | "hash"
    | "not-reached"
    | "not-in-kernel";
  readonly message: string;
}

/** A further fact about the connection: its topic, and a sentence. */
export interface Note {
  readonly topic:
    | "source"
    | "affinity"
    | "scheduler"
    | "loopback"
    | "source ranges"
    | "conflict"
    | "hints"
    | "reset"
    | "fast path"
    | "port ranges";
  readonly message: string;
}

/** Outcome, cause and action. Sentences begin with a small letter and have no full stop. */
export interface Verdict {
  readonly result: Result;
  readonly cause: Cause;
  readonly message: string;
  /** Absent when there is nothing to do. */
  readonly action?: string;
  /** Shell commands for the action, in their order; absent where it needs none. */
  readonly commands?: readonly string[];
}

/** The explanation of one connection. */
export interface Explanation {
  readonly connection: Connection;
  /** The node whose rules the connection passes. */
  readonly node: string;
  /** The rules that were followed: those of the desired state, or the kernel's. */
  readonly rules: "desired" | "live";
  /** Absent when no Service has this destination. */
  readonly frontend?: ExplainedFrontend;
  readonly steps: readonly ExplainedStep[];
  readonly endpoints: readonly ExplainedEndpoint[];
  readonly notes: readonly Note[];
  /** Differences between the kernel and the desired state of this frontend; absent when they were not compared. */
  readonly differences?: readonly string[];
  readonly verdict: Verdict;
}
