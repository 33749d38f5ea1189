import type { Optional, RawMetadata } from "./decode.ts";

/** One entry of a Service's `spec.ports` in API objects. */
export interface RawServicePort {
  readonly name?: Optional<string>;
  readonly protocol?: Optional<string>;
  readonly port: number;
  readonly nodePort?: Optional<number>;
}

/** One entry of a Service's `status.loadBalancer.ingress` in API objects. */
export interface RawIngress {
  readonly ip?: Optional<string>;
  /** `VIP` (the default) or `Proxy`. Source: https://kep.k8s.io/1860 */
  readonly ipMode?: Optional<string>;
}

/** A Service's `spec` in API objects. */
export interface RawServiceSpec {
  readonly type?: Optional<string>;
  readonly selector?: Optional<object>;
  readonly ports?: Optional<readonly RawServicePort[]>;
  readonly clusterIP?: Optional<string>;
  readonly clusterIPs?: Optional<readonly string[]>;
  readonly ipFamilies?: Optional<readonly string[]>;
  readonly externalIPs?: Optional<readonly string[]>;
  readonly externalName?: Optional<string>;
  readonly loadBalancerSourceRanges?: Optional<readonly string[]>;
  readonly sessionAffinity?: Optional<string>;
  readonly sessionAffinityConfig?: Optional<{
    readonly clientIP?: Optional<{ readonly timeoutSeconds?: Optional<number> }>;
  }>;
  readonly externalTrafficPolicy?: Optional<string>;
  readonly internalTrafficPolicy?: Optional<string>;
  readonly healthCheckNodePort?: Optional<number>;
}

/** The fields of a Service (core/v1) that are read, as schemas/service.schema.json accepts them. */
export interface RawService {
  readonly metadata: RawMetadata;
  readonly spec: RawServiceSpec;
  readonly status?: Optional<{
    readonly loadBalancer?: Optional<{ readonly ingress?: Optional<readonly RawIngress[]> }>;
  }>;
}

/** Returns the entries of `status.loadBalancer.ingress`, none if there is no such field. */
export function ingressOf({ status }: RawService): readonly RawIngress[] {
  return status?.loadBalancer?.ingress ?? [];
}
