import type { ServiceName } from "../../model/ids.ts";
import type { Hook } from "../../trace/outcome.ts";

/** What becomes of a connection; `varies` when chance decides between these. */
export type Result = "served" | "not-handled" | "refused" | "dropped" | "varies";

/** Why it becomes that, as a word that scripts can rely on. */
export type Cause =
  /** Endpoints are chosen as they should be. */
  | "served"
  /** Hints leave ready endpoints out. */
  | "hints"
  /** None is ready; those that still serve while they terminate stand in. */
  | "terminating-endpoints"
  /** Several Services want the frontend; an older one has it. */
  | "contested"
  | "no-endpoints"
  | "not-ready"
  /** The EndpointSlices have endpoints, and no port of the Service port's name and protocol. */
  | "port-name"
  | "no-local-endpoints"
  | "source-ranges"
  /** A cluster IP in use, but not this port of it. */
  | "unserved-port"
  /** In a ServiceCIDR, and nobody's. */
  | "unallocated-address"
  /** A Service that has the address is none of ours. */
  | "other-proxy"
  | "headless"
  | "external-name"
  | "not-served"
  /** The Service's load balancer keeps the address to itself. */
  | "load-balancer"
  /** A NodePort, but not of this address. */
  | "node-port-address"
  | "loopback"
  | "not-a-service"
  /** The kernel lacks what the objects ask for. */
  | "not-programmed"
  /** The rules decide so, and no object tells why. */
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

/** What the connection is made to. */
export interface ExplainedFrontend {
  /** `10.96.0.10 . tcp . 53`, or `tcp . 30080` for a NodePort. */
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
  /** The Services that want the frontend, too, and lost it to this one. */
  readonly losers: readonly ServiceName[];
}

/** One rule on the way, and what it did. */
export interface ExplainedStep {
  readonly hook: Hook;
  readonly chain: string;
  /** As `nft list` prints it. */
  readonly rule: string;
  /** The elements that it found, as nft prints them: `service-ips { 10.96.0.10 . tcp . 53 : goto balance-2 }`. */
  readonly elements: readonly string[];
  /** What that means, without a full stop. */
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

/** Why an endpoint gets no connections: a word for scripts, and words for people. */
export interface ExcludedEndpoint {
  readonly reason:
    | "not-ready"
    | "terminating"
    | "not-serving"
    | "not-local"
    | "other-zone"
    | "other-node"
    | "affinity"
    | "not-reached"
    | "not-in-kernel";
  readonly message: string;
}

/** Something else to know of the connection: a word or two for what it is about, and a sentence. */
export interface Note {
  readonly topic: "source" | "affinity" | "source ranges" | "contested" | "hints";
  readonly message: string;
}

/** What is the outcome, why, and what to do. Sentences begin small and have no full stop. */
export interface Verdict {
  readonly result: Result;
  readonly cause: Cause;
  readonly message: string;
  /** Absent when there is nothing to do. */
  readonly action?: string;
}

/** All that there is to say of one connection. */
export interface Explanation {
  readonly connection: Connection;
  /** The node on which it is looked at. */
  readonly node: string;
  /** Whose rules were followed: those that the objects ask for, or the kernel's own. */
  readonly rules: "desired" | "live";
  /** Absent when nothing is served there. */
  readonly frontend?: ExplainedFrontend;
  readonly steps: readonly ExplainedStep[];
  readonly endpoints: readonly ExplainedEndpoint[];
  readonly notes: readonly Note[];
  /** Where the kernel is not as the objects ask for this frontend; absent when that was not compared. */
  readonly differences?: readonly string[];
  readonly verdict: Verdict;
}
