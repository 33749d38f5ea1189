import { FAMILIES, type Family } from "../base/family.ts";
import { type ServicePortKey, type ServicePortName, servicePortKey, servicePortName } from "./ids.ts";
import { compareAge, type Service, type ServicePortSpec } from "./service.ts";

/** One port of a Service in one family: what rules are rendered for. */
export interface ServicePort {
  readonly key: ServicePortKey;
  readonly name: ServicePortName;
  readonly family: Family;
  readonly service: Service;
  readonly spec: ServicePortSpec;
}

/** A port of a Service in one family, without its names. */
export type PortOfService = Pick<ServicePort, "family" | "service" | "spec">;

/** The ports of a Service, for each family in which it has a cluster IP (as kube-proxy does it). */
export function servicePortsOf(service: Service): ServicePort[] {
  const families = FAMILIES.filter((family) => service.clusterIPs[family] !== "");
  const [first = [], ...others] = families.map((family) =>
    service.ports.map((spec) => {
      const name = servicePortName(service.name, spec.name, spec.protocol);
      return { key: servicePortKey(family, name), name, family, service, spec };
    }),
  );
  return others.length === 0 ? first : first.concat(...others);
}

/** Reachable by something other than its cluster IP. */
export function isExternallyAccessible({ family, service, spec }: PortOfService): boolean {
  return (
    spec.nodePort !== 0 ||
    service.externalIPs[family].length > 0 ||
    service.loadBalancerIPs[family].length > 0
  );
}

/**
 * Ever sends traffic by "Cluster" policy. External traffic of a Local Service counts: pods and the node itself
 * are short-cut to the cluster-wide endpoints.
 */
export function usesClusterEndpoints(port: PortOfService): boolean {
  return !port.service.internalPolicyLocal || isExternallyAccessible(port);
}

/** Ever sends traffic by "Local" policy. */
export function usesLocalEndpoints(port: PortOfService): boolean {
  return (
    port.service.internalPolicyLocal || (port.service.externalPolicyLocal && isExternallyAccessible(port))
  );
}

/** Orders service ports by age: the older Service, then namespace/name, then the port. See {@link comparePrecedenceFor}. */
export function comparePrecedence(a: ServicePort, b: ServicePort): number {
  return compareAge(a.service, b.service) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

/** Whether an address is the cluster IP of a service port's Service. */
export function hasClusterIP({ service, family }: ServicePort, address: string): boolean {
  return service.clusterIPs[family] === address;
}

/**
 * Orders service ports by who wins a contested frontend with this address. A cluster IP belongs to the Service that the
 * API server gave it to, also when an older one names it as an external IP (CVE-2020-8554); else by {@link comparePrecedence}.
 */
export function comparePrecedenceFor(address: string, a: ServicePort, b: ServicePort): number {
  return Number(hasClusterIP(b, address)) - Number(hasClusterIP(a, address)) || comparePrecedence(a, b);
}
