import { byFamily } from "../../base/family.ts";
import { joinPath } from "../../base/schema-error.ts";
import { type Protocol, serviceName } from "../../model/ids.ts";
import type { Service, ServicePortSpec } from "../../model/service.ts";
import { type Decoded, type FieldDiagnostic, foreignLabel, type Optional, type RawMetadata, timeOf } from "./decode.ts";
import {
  clusterIPsOf,
  externalIPsOf,
  loadBalancerOf,
  type RawAddresses,
  type RawLoadBalancerStatus,
} from "./service-addresses.ts";
import { shapeFaults } from "./shape.ts";

/** The API's default of `sessionAffinityConfig.clientIP.timeoutSeconds`: three hours. */
const DEFAULT_AFFINITY_SECONDS = 10800;

interface RawPort {
  readonly name?: Optional<string>;
  readonly protocol?: Optional<string>;
  readonly port: number;
  readonly nodePort?: Optional<number>;
}

interface RawSpec extends RawAddresses {
  readonly type?: Optional<string>;
  readonly ports?: Optional<readonly RawPort[]>;
  readonly sessionAffinity?: Optional<string>;
  readonly sessionAffinityConfig?: Optional<{
    readonly clientIP?: Optional<{ readonly timeoutSeconds?: Optional<number> }>;
  }>;
  readonly externalTrafficPolicy?: Optional<string>;
  readonly internalTrafficPolicy?: Optional<string>;
  readonly healthCheckNodePort?: Optional<number>;
}

/** What schemas/service.schema.json lets through. */
interface RawService {
  readonly metadata: RawMetadata;
  readonly spec: RawSpec;
  readonly status?: Optional<{ readonly loadBalancer?: Optional<RawLoadBalancerStatus> }>;
}

/**
 * Reads a Service as the API gives it (core/v1), with kube-proxy's meaning of every field. Without a namespace
 * it is in `default`, as for kubectl.
 */
export function decodeService(object: unknown): Decoded<Service> {
  const shape = shapeFaults("Service", object);
  if (shape.length > 0) return { kind: "refused", faults: shape };
  const raw = object as RawService;
  const reason = foreignLabel(raw.metadata) ?? notServed(raw.spec);
  if (reason !== undefined) return { kind: "ignored", reason };
  const faults: FieldDiagnostic[] = [];
  const clusterIPs = clusterIPsOf(raw.spec, faults);
  const ports = portsOf(raw.spec.ports ?? [], faults);
  if (ports.length === 0) faults.push({ path: "spec.ports", reason: "must have a port", severity: "error" });
  if (clusterIPs === undefined || ports.length === 0) return { kind: "refused", faults };
  const families = byFamily((family) => clusterIPs[family] !== "");
  const { metadata, spec } = raw;
  const value: Service = {
    name: serviceName(metadata.namespace ?? "default", metadata.name),
    uid: metadata.uid ?? "",
    createdAt: timeOf(metadata.creationTimestamp, "metadata.creationTimestamp", faults),
    clusterIPs,
    ports,
    externalIPs: externalIPsOf(spec, families, faults),
    ...loadBalancerOf(spec, raw.status?.loadBalancer, families, faults),
    affinitySeconds: affinityOf(spec),
    internalPolicyLocal: spec.internalTrafficPolicy === "Local",
    externalPolicyLocal: isReachedFromOutside(spec) && spec.externalTrafficPolicy === "Local",
    healthCheckNodePort: healthCheckNodePortOf(spec),
    deleting: Boolean(metadata.deletionTimestamp),
  };
  return { kind: "ours", value, faults };
}

/** Why kube-proxy would not serve it, if so. */
function notServed(spec: RawSpec): string | undefined {
  if (spec.type === "ExternalName") return "is of type ExternalName";
  const clusterIP = spec.clusterIP || spec.clusterIPs?.[0];
  if (clusterIP === "None") return "is headless";
  return clusterIP ? undefined : "has no cluster IP (the API server assigns it)";
}

function protocolOf(protocol: Optional<string>): Protocol {
  return (protocol || "TCP").toLowerCase() as Protocol;
}

/** The ports but for those that repeat another's name, port or node port; these are named. */
function portsOf(ports: readonly RawPort[], faults: FieldDiagnostic[]): ServicePortSpec[] {
  const seen = new Set<string>();
  const isRepeated = (key: string, path: string, what: string): boolean => {
    const isKnown = seen.has(key);
    if (isKnown) faults.push({ path, reason: `repeats the ${what} of another port`, severity: "error" });
    seen.add(key);
    return isKnown;
  };
  const result: ServicePortSpec[] = [];
  for (const [index, raw] of ports.entries()) {
    const path = joinPath("spec.ports", index);
    const [name, protocol, nodePort] = [raw.name ?? "", protocolOf(raw.protocol), raw.nodePort ?? 0];
    if (isRepeated(`name ${name}`, joinPath(path, "name"), "name")) continue;
    if (isRepeated(`port ${raw.port} ${protocol}`, joinPath(path, "port"), "number and protocol")) continue;
    const isNodePortFree =
      nodePort === 0 || !isRepeated(`node port ${nodePort} ${protocol}`, joinPath(path, "nodePort"), "node port");
    result.push({ name, protocol, port: raw.port, nodePort: isNodePortFree ? nodePort : 0 });
  }
  return result;
}

function affinityOf(spec: RawSpec): number {
  if (spec.sessionAffinity !== "ClientIP") return 0;
  return spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? DEFAULT_AFFINITY_SECONDS;
}

/** `externalTrafficPolicy` has a meaning for these only, and may be left over on others. */
function isReachedFromOutside(spec: RawSpec): boolean {
  const type = spec.type || "ClusterIP";
  return type === "LoadBalancer" || type === "NodePort" || (type === "ClusterIP" && Boolean(spec.externalIPs?.length));
}

function healthCheckNodePortOf(spec: RawSpec): number {
  const isChecked = spec.type === "LoadBalancer" && spec.externalTrafficPolicy === "Local";
  return isChecked ? (spec.healthCheckNodePort ?? 0) : 0;
}
