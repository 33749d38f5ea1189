import type { Family } from "../base/family.ts";
import type { FeatureValues } from "./features.ts";
import type { Protocol, ServiceName } from "./ids.ts";
import type { SliceEndpoints } from "./slice-endpoints.ts";

/** One entry of an EndpointSlice's `ports` that a proxy can use. */
export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  /** 1..65535 */
  readonly port: number;
}

/** One entry of an EndpointSlice's `endpoints`, with defaults for absent conditions. */
export interface SliceEndpoint {
  /** The first address, canonical. The others have no meaning in Kubernetes. */
  readonly address: string;
  /** "" when not given. */
  readonly nodeName: string;
  readonly zone: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** `hints.forZones` (KEP-2433). */
  readonly zoneHints: readonly string[];
  /** `hints.forNodes` (KEP-3015). */
  readonly nodeHints: readonly string[];
  /** `namespace/name` of its Pod, "" when not given; for display only. */
  readonly pod: string;
}

/** The part of an EndpointSlice that rules depend on. Source: discovery.k8s.io/v1 EndpointSlice. */
export interface EndpointSlice {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** From the label `kubernetes.io/service-name`. */
  readonly service: ServiceName;
  readonly family: Family;
  readonly ports: readonly SlicePort[];
  readonly endpoints: SliceEndpoints;
  /** What annotations of features ask for; absent for nothing. */
  readonly features?: FeatureValues;
  /** The annotation `endpoints.kubernetes.io/last-change-trigger-time`, milliseconds; 0 when absent. */
  readonly lastChangeTriggerTime: number;
}
