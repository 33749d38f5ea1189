import type {
  V1LoadBalancerIngress,
  V1ServicePort,
  V1ServiceSpec,
  V1ServiceStatus,
} from "@kubernetes/client-node";
import { joinPath } from "../../base/schema-error.ts";
import type { LocatedText, Optional, Raw, RawMetadata } from "./decode.ts";

/** One entry of a Service's `spec.ports` in API objects. */
export type RawServicePort = Raw<V1ServicePort> & { readonly port: number };

/** One entry of a Service's `status.loadBalancer.ingress` in API objects. */
export type RawIngress = Raw<V1LoadBalancerIngress>;

/** A Service's `spec` in API objects. */
export type RawServiceSpec = Omit<Raw<V1ServiceSpec>, "ports"> & {
  readonly ports?: Optional<readonly RawServicePort[]>;
};

/** A Service (core/v1) as schemas/service.schema.json accepts it. */
export interface RawService {
  readonly metadata: RawMetadata;
  readonly spec: RawServiceSpec;
  readonly status?: Optional<Raw<V1ServiceStatus>>;
}

/** The first cluster IP: "None" of a headless Service, empty until the API server assigns one. */
export function firstClusterIP({ clusterIP, clusterIPs }: RawServiceSpec): string | undefined {
  return clusterIP || clusterIPs?.[0];
}

export function isHeadless(spec: RawServiceSpec): boolean {
  return firstClusterIP(spec) === "None";
}

/** `externalTrafficPolicy` has an effect for these Services only, and may be left over on others. */
export function isReachedFromOutside({ type, externalIPs }: RawServiceSpec): boolean {
  if (type === "LoadBalancer" || type === "NodePort") return true;
  return (type || "ClusterIP") === "ClusterIP" && Boolean(externalIPs?.length);
}

/** Whether a health check node port has an effect for a Service. */
export function hasHealthChecks({ type, externalTrafficPolicy }: RawServiceSpec): boolean {
  return type === "LoadBalancer" && externalTrafficPolicy === "Local";
}

/** Returns the entries of `status.loadBalancer.ingress`, none if there is no such field. */
export function ingressOf({ status }: RawService): readonly RawIngress[] {
  return status?.loadBalancer?.ingress ?? [];
}

/** Returns the addresses of `status.loadBalancer.ingress`, with the paths of their fields and their modes. */
export function ingressAddresses(raw: RawService): (LocatedText & Pick<RawIngress, "ipMode">)[] {
  return ingressOf(raw).flatMap(({ ip, ipMode }, index) =>
    ip ? [{ text: ip, path: joinPath(joinPath("status.loadBalancer.ingress", index), "ip"), ipMode }] : [],
  );
}
