import { HEADLESS_LABEL } from "../decode/endpoint-slice.ts";
import { PROXY_NAME_LABEL } from "../decode/service.ts";
import type { ObjectKind } from "../decode/shape.ts";
import type { ResourceName } from "../source.ts";

/** How to list and watch one resource. */
export interface Resource {
  readonly name: ResourceName;
  readonly kind: ObjectKind;
  /** Path of the collection, across all namespaces. */
  readonly path: string;
  /** Sent with both list and watch, or the watch would report objects that the list excluded. */
  readonly selectors: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /**
   * The key of an object in every cluster. A list that lacks it and all other known objects is implausible.
   */
  readonly alwaysExists?: string;
  /** True if a cluster may lack it: it then counts as empty, which is not an error. */
  readonly optional?: boolean;
}

/**
 * Returns the resource to request after a rejection (HTTP 400): without its fieldSelector, if that only saves
 * the transfer of objects that decoding ignores. Before Kubernetes 1.31 Services have no such field. Source:
 * https://github.com/kubernetes/kubernetes/pull/123905
 * @returns undefined if nothing else can be requested
 */
export function withoutFieldSelector(resource: Resource): Resource | undefined {
  const { fieldSelector, ...selectors } = resource.selectors;
  return resource.name === "services" && fieldSelector !== undefined ? { ...resource, selectors } : undefined;
}

/**
 * Returns the resources that a service proxy follows, with kube-proxy's selectors: Services without those of
 * other proxies (https://kep.k8s.io/2447) and without headless ones; EndpointSlices without those of headless
 * Services, which the endpointslice controller labels; the Node `nodeName`; and ServiceCIDRs
 * (https://kep.k8s.io/1880), which exist from Kubernetes 1.33 on. Source:
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/cmd/kube-proxy/app/server.go
 */
export function resources(nodeName: string): Readonly<Record<ResourceName, Resource>> {
  return {
    services: {
      name: "services",
      kind: "Service",
      path: "/api/v1/services",
      selectors: { labelSelector: `!${PROXY_NAME_LABEL}`, fieldSelector: "spec.clusterIP!=None" },
      alwaysExists: "default/kubernetes",
    },
    endpointslices: {
      name: "endpointslices",
      kind: "EndpointSlice",
      path: "/apis/discovery.k8s.io/v1/endpointslices",
      selectors: { labelSelector: `!${HEADLESS_LABEL}` },
      alwaysExists: "default/kubernetes",
    },
    nodes: {
      name: "nodes",
      kind: "Node",
      path: "/api/v1/nodes",
      selectors: { fieldSelector: `metadata.name=${nodeName}` },
    },
    servicecidrs: {
      name: "servicecidrs",
      kind: "ServiceCIDR",
      path: "/apis/networking.k8s.io/v1/servicecidrs",
      selectors: {},
      optional: true,
    },
  };
}
