import type { ByFamily } from "../base/family.ts";

/** The part of our own Node that rules depend on. Source: core/v1 Node. */
export interface Node {
  readonly name: string;
  readonly uid: string;
  /** The label `topology.kubernetes.io/zone`, "" when absent. */
  readonly zone: string;
  /** The primary address of each family (InternalIP before ExternalIP), "" for none. */
  readonly addresses: ByFamily<string>;
  /** `spec.podCIDRs` by family, canonical. */
  readonly podCIDRs: ByFamily<readonly string[]>;
  /** `metadata.deletionTimestamp` is set. */
  readonly deleting: boolean;
  /** Taint keys, for node eligibility (KEP-3836). */
  readonly taints: readonly string[];
}

/** A Node of which only the name is known. */
export function unknownNode(name: string): Node {
  return {
    name,
    uid: "",
    zone: "",
    addresses: { ip: "", ip6: "" },
    podCIDRs: { ip: [], ip6: [] },
    deleting: false,
    taints: [],
  };
}

/** The part of a ServiceCIDR that rules depend on (networking.k8s.io/v1, KEP-1880). */
export interface ServiceCIDR {
  readonly name: string;
  readonly uid: string;
  readonly cidrs: ByFamily<readonly string[]>;
}

/** The addresses of the node on which NodePorts and health checks answer. Loopback never does. */
export type NodePortAddresses =
  | { readonly kind: "all" }
  | { readonly kind: "addresses"; readonly addresses: readonly string[] };
