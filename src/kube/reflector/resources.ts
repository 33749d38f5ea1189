import type { ResourceName } from "../source.ts";

/** How to list and watch one resource. */
export interface Resource {
  readonly name: ResourceName;
  /** Path of the collection, across all namespaces. */
  readonly path: string;
  /** Sent with both list and watch, or the watch would report objects that the list excluded. */
  readonly selectors: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** True if a cluster may lack it: it then counts as empty, which is not an error. */
  readonly optional: boolean;
}

/**
 * What a service proxy must leave alone: Services (and their slices) that name another proxy, and what belongs to
 * headless Services. Source: KEP-2447, and the label that the endpointslice controller puts on headless Services' slices.
 */
export const PROXY_SELECTOR = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";

/** The four resources that we look at; of the Nodes, only `nodeName`. ServiceCIDRs: KEP-1880, served from Kubernetes 1.33. */
export function resources(nodeName: string): Readonly<Record<ResourceName, Resource>> {
  return {
    services: {
      name: "services",
      path: "/api/v1/services",
      selectors: { labelSelector: PROXY_SELECTOR },
      optional: false,
    },
    endpointslices: {
      name: "endpointslices",
      path: "/apis/discovery.k8s.io/v1/endpointslices",
      selectors: { labelSelector: PROXY_SELECTOR },
      optional: false,
    },
    nodes: {
      name: "nodes",
      path: "/api/v1/nodes",
      selectors: { fieldSelector: `metadata.name=${nodeName}` },
      optional: false,
    },
    servicecidrs: {
      name: "servicecidrs",
      path: "/apis/networking.k8s.io/v1/servicecidrs",
      selectors: {},
      optional: true,
    },
  };
}
