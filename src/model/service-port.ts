import { FAMILIES, type Family } from "../base/family.ts";
import type { EndpointSlice } from "./endpoint-slice.ts";
import { type ServicePortKey, type ServicePortName, servicePortKey, servicePortName } from "./ids.ts";
import { compareAge, hasFamily, type Service, type ServicePortSpec } from "./service.ts";

/** One port of a Service in one family: the unit of rendering. */
export interface ServicePort {
  readonly key: ServicePortKey;
  readonly name: ServicePortName;
  readonly family: Family;
  readonly service: Service;
  readonly spec: ServicePortSpec;
}

/** A Service and its slices. */
export interface ServedObjects {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
}

/** A port of a Service in one family, without its names. */
export type PortOfService = Pick<ServicePort, "family" | "service" | "spec">;

/** The ports of a Service, for each family in which it has a cluster IP (as in kube-proxy). */
export function servicePortsOf(service: Service): ServicePort[] {
  const families = FAMILIES.filter((family) => hasFamily(service, family));
  const [first = [], ...others] = families.map((family) =>
    service.ports.map((spec) => {
      const name = servicePortName(service.name, spec.name, spec.protocol);
      return { key: servicePortKey(family, name), name, family, service, spec };
    }),
  );
  return others.length === 0 ? first : first.concat(...others);
}

/** Whether it has an address besides its cluster IP. */
export function isExternallyAccessible({ family, service, spec }: PortOfService): boolean {
  return (
    spec.nodePort !== 0 ||
    service.externalIPs[family].length > 0 ||
    service.loadBalancerIPs[family].length > 0
  );
}

/**
 * Whether the policy "Cluster" applies to any of its traffic. External traffic of a Local Service counts:
 * pods and the node itself are short-cut to the cluster-wide endpoints.
 */
export function usesClusterEndpoints(port: PortOfService): boolean {
  return !port.service.internalPolicyLocal || isExternallyAccessible(port);
}

/** Whether the policy "Local" applies to any of its traffic. */
export function usesLocalEndpoints(port: PortOfService): boolean {
  return (
    port.service.internalPolicyLocal || (port.service.externalPolicyLocal && isExternallyAccessible(port))
  );
}

/** Orders service ports by age of the Service, then by name and port. See {@link comparePrecedenceFor}. */
export function comparePrecedence(a: ServicePort, b: ServicePort): number {
  return compareAge(a.service, b.service) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

/** Whether an address is the cluster IP of a service port's Service. */
export function hasClusterIP({ service, family }: ServicePort, address: string): boolean {
  return service.clusterIPs[family] === address;
}

/**
 * Orders service ports by precedence for a frontend with this address. The owner of a cluster IP comes first,
 * even if an older Service names it as an external IP (CVE-2020-8554). Otherwise by
 * {@link comparePrecedence}.
 */
export function comparePrecedenceFor(address: string, a: ServicePort, b: ServicePort): number {
  return Number(hasClusterIP(b, address)) - Number(hasClusterIP(a, address)) || comparePrecedence(a, b);
}
