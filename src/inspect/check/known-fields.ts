import type { ObjectKind } from "../../kube/decode/shape.ts";

/** The fields of an object, or of the items of an array. `true` stands for a value or a map that is not looked into. */
export interface FieldTree {
  readonly [name: string]: true | FieldTree;
}

function values<Name extends string>(...names: readonly Name[]): Readonly<Record<Name, true>> {
  return Object.fromEntries(names.map((name) => [name, true])) as Readonly<Record<Name, true>>;
}

const OBJECT = {
  ...values("apiVersion", "kind"),
  metadata: values(
    ...(["name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation"] as const),
    ...(["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] as const),
    ...(["labels", "annotations", "ownerReferences", "finalizers", "managedFields"] as const),
  ),
};

const OBJECT_REFERENCE = values("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath");

/**
 * All fields of Kubernetes 1.36 of the kinds that are read, also those that nft-proxy ignores. A Node is written by its
 * kubelet and not by hand: its fields are not listed. Source: https://kubernetes.io/docs/reference/kubernetes-api/
 */
export const KNOWN_FIELDS: Readonly<Record<ObjectKind, FieldTree>> = {
  Service: {
    ...OBJECT,
    spec: {
      ports: values("name", "protocol", "appProtocol", "port", "targetPort", "nodePort"),
      ...values("selector", "clusterIP", "clusterIPs", "type", "externalIPs", "sessionAffinity", "loadBalancerIP"),
      ...values("loadBalancerSourceRanges", "externalName", "externalTrafficPolicy", "healthCheckNodePort"),
      ...values("publishNotReadyAddresses", "ipFamilies", "ipFamilyPolicy", "allocateLoadBalancerNodePorts"),
      ...values("loadBalancerClass", "internalTrafficPolicy", "trafficDistribution"),
      sessionAffinityConfig: { clientIP: values("timeoutSeconds") },
    },
    status: {
      loadBalancer: {
        ingress: { ...values("ip", "hostname", "ipMode"), ports: values("port", "protocol", "error") },
      },
      conditions: true,
    },
  },
  EndpointSlice: {
    ...OBJECT,
    addressType: true,
    endpoints: {
      ...values("addresses", "hostname", "deprecatedTopology", "nodeName", "zone"),
      conditions: values("ready", "serving", "terminating"),
      targetRef: OBJECT_REFERENCE,
      hints: { forZones: values("name"), forNodes: values("name") },
    },
    ports: values("name", "protocol", "port", "appProtocol"),
  },
  ServiceCIDR: { ...OBJECT, spec: values("cidrs"), status: values("conditions") },
  Node: { ...OBJECT, spec: true, status: true },
};
