import { type ByFamily, FAMILIES, type Family } from "../base/family.ts";
import type { Excess } from "./budgets.ts";
import type { FeatureValues } from "./features.ts";
import type { Protocol, ServiceName } from "./ids.ts";

/** One entry of `spec.ports`. `name` is "" when the Service has a single nameless port. */
export interface ServicePortSpec {
  readonly name: string;
  readonly protocol: Protocol;
  /** 1..65535 */
  readonly port: number;
  /** 1..65535, or 0 for none. */
  readonly nodePort: number;
}

/** The reason of the Event about an annotation of a feature that is off. */
export const FEATURE_NOT_ENABLED = "FeatureNotEnabled";

/** An annotation of a Service that has no effect. */
export interface IgnoredAnnotation {
  readonly annotation: string;
  /** The reason of the Event: {@link FEATURE_NOT_ENABLED} if its feature is off. */
  readonly event: string;
  /** The predicate of a sentence: `must be on or off`. */
  readonly reason: string;
  /** The behaviour instead: `it is ignored`. */
  readonly consequence: string;
}

/**
 * The part of a Service that rules depend on: every address is valid and in canonical form (see ip.ts), and
 * of the right family. Source: core/v1 Service.
 */
export interface Service {
  readonly name: ServiceName;
  readonly uid: string;
  /** `metadata.creationTimestamp`, milliseconds since 1970; 0 when absent. Decides conflicts. */
  readonly createdAt: number;
  /** "" for a family that the Service does not have. */
  readonly clusterIPs: ByFamily<string>;
  readonly ports: readonly ServicePortSpec[];
  readonly externalIPs: ByFamily<readonly string[]>;
  /** `status.loadBalancer.ingress[].ip` whose ipMode is VIP (KEP-1860). */
  readonly loadBalancerIPs: ByFamily<readonly string[]>;
  /** Canonical CIDRs, as they were given, not merged. */
  readonly loadBalancerSourceRanges: ByFamily<readonly string[]>;
  /** Seconds of ClientIP affinity; 0 for none. */
  readonly affinitySeconds: number;
  /** What annotations of features ask for; absent for nothing. */
  readonly features?: FeatureValues;
  /** Undefined if every annotation has an effect. */
  readonly ignoredAnnotations?: readonly IgnoredAnnotation[];
  readonly internalPolicyLocal: boolean;
  readonly externalPolicyLocal: boolean;
  /** 1..65535, or 0 for none. */
  readonly healthCheckNodePort: number;
  /** The budget that it exceeds, if any; its external addresses and source ranges are then empty. */
  readonly excess?: Excess;
  /** `metadata.deletionTimestamp` is set. */
  readonly deleting: boolean;
}

/** Whether a Service has addresses of a family. */
export function hasFamily({ clusterIPs }: Pick<Service, "clusterIPs">, family: Family): boolean {
  return clusterIPs[family] !== "";
}

/** The Service without what its annotations of a feature ask for. */
export function withoutFeature({ features, ...service }: Service, name: string): Service {
  const { [name]: _, ...others } = features ?? {};
  return Object.keys(others).length === 0 ? service : { ...service, features: others };
}

/** The addresses of a Service of any kind, and "" for a family that it does not have. */
export function addressesOf({ clusterIPs, externalIPs, loadBalancerIPs }: Service): string[] {
  return FAMILIES.flatMap((family) => [
    clusterIPs[family],
    ...externalIPs[family],
    ...loadBalancerIPs[family],
  ]);
}

/** Orders Services by precedence: the older first, then by namespace/name. */
export function compareAge(
  a: Pick<Service, "createdAt" | "name">,
  b: Pick<Service, "createdAt" | "name">,
): number {
  return a.createdAt - b.createdAt || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}
