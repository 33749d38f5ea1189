import { byFamily } from "../../base/family.ts";
import { joinPath } from "../../base/schema-error.ts";
import { SharedValues } from "../../base/shared-values.ts";
import { ALL_FEATURES } from "../../features/selection.ts";
import { type Excess, excessOf, MOST_ADDRESSES, MOST_SOURCE_RANGES } from "../../model/budgets.ts";
import { serviceName } from "../../model/ids.ts";
import type { Service, ServicePortSpec } from "../../model/service.ts";
import { annotatedFields, SERVICE_ANNOTATIONS } from "./annotations.ts";
import {
  type Decoded,
  type FieldDiagnostic,
  fieldError,
  hasLabel,
  invalid,
  isOmitted,
  protocolOf,
  timeOf,
  type UsablePart,
  valid,
} from "./decode.ts";
import {
  firstClusterIP,
  hasHealthChecks,
  ingressOf,
  isReachedFromOutside,
  type RawService,
  type RawServicePort,
  type RawServiceSpec,
} from "./raw-service.ts";
import { clusterIPsOf, externalAddressesOf, NO_EXTERNAL_ADDRESSES } from "./service-addresses.ts";
import { independent, shapeOf } from "./shape.ts";

/** The label of Services that another proxy handles. Source: https://kep.k8s.io/2447 */
export const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";

/** The API's default of `sessionAffinityConfig.clientIP.timeoutSeconds`: three hours. */
const DEFAULT_AFFINITY_SECONDS = 10800;

/** Shares equal lists of ports: most Services have one of a few. */
const portLists = new SharedValues<readonly ServicePortSpec[]>();

/**
 * Decodes a Service (core/v1) with kube-proxy's interpretation of every field. A Service without a namespace
 * is in `default`, as for kubectl.
 */
export function decodeService(object: unknown, enabled = ALL_FEATURES): Decoded<Service> {
  const { errors, part } = shapeOf("Service", object);
  if (part === undefined) return invalid(errors);
  const raw = part.value as RawService;
  const { metadata, spec } = raw;
  const isWhole = errors.length === 0;
  const reason = notServed(raw, part);
  if (reason !== undefined) return isWhole ? { kind: "ignored", reason } : invalid(errors);
  const diagnostics: FieldDiagnostic[] = [];
  const clusterIPs = clusterIPsOf(spec, diagnostics);
  const ports = portsOf(spec.ports ?? [], diagnostics);
  if (ports.length === 0) diagnostics.push(fieldError("missing-field", "spec.ports", "must have a port"));
  const invalidPorts = isWhole && ports.length > 0 ? [] : invalidPortNames(object, ports);
  // Without valid cluster IPs, addresses of both families are accepted.
  const families = byFamily((family) => clusterIPs?.[family] !== "");
  const excess = excessIn(raw);
  const value: Service = {
    name: serviceName(metadata.namespace ?? "default", metadata.name),
    uid: metadata.uid ?? "",
    createdAt: timeOf(metadata.creationTimestamp, "metadata.creationTimestamp", diagnostics),
    clusterIPs: clusterIPs ?? byFamily(() => ""),
    ...(excess === undefined
      ? externalAddressesOf(raw, families, diagnostics)
      : { ...NO_EXTERNAL_ADDRESSES, excess }),
    affinitySeconds: affinityOf(spec),
    ports,
    ...annotatedFields(SERVICE_ANNOTATIONS, metadata, enabled, diagnostics, { ports, invalidPorts }),
    internalPolicyLocal: spec.internalTrafficPolicy === "Local",
    externalPolicyLocal: isReachedFromOutside(spec) && spec.externalTrafficPolicy === "Local",
    healthCheckNodePort: healthCheckNodePortOf(spec),
    deleting: Boolean(metadata.deletionTimestamp),
  };
  if (isWhole && clusterIPs !== undefined && ports.length > 0) return valid(value, diagnostics);
  return invalid([...errors, ...independent(diagnostics, part)]);
}

/**
 * Returns the names of the ports that a Service with errors has besides the valid `ports`; undefined if it
 * has no list of ports, or a port in it whose name is not text.
 */
function invalidPortNames(object: unknown, ports: readonly ServicePortSpec[]): string[] | undefined {
  const written = (object as { readonly spec: { readonly ports?: unknown } }).spec.ports;
  if (!Array.isArray(written) || written.length === 0) return undefined;
  const names = written.map((port: { readonly name?: unknown } | null) => port?.name ?? "");
  const areKnown = names.every((name) => typeof name === "string");
  const valid = new Set(ports.map((port) => port.name));
  return areKnown ? names.filter((name) => !valid.has(name)) : undefined;
}

/** Returns the budget that the lists of a Service exceed, undefined for none. */
function excessIn(raw: RawService): Excess | undefined {
  const { externalIPs, loadBalancerSourceRanges } = raw.spec;
  const addresses = (externalIPs?.length ?? 0) + ingressOf(raw).length;
  return (
    excessOf("sourceRanges", loadBalancerSourceRanges?.length ?? 0, MOST_SOURCE_RANGES) ??
    excessOf("addresses", addresses, MOST_ADDRESSES)
  );
}

/**
 * Returns the reason why kube-proxy does not serve such a Service, undefined if it does. The selectors of the
 * API requests exclude most of these already; Services from files are filtered only here.
 */
function notServed({ metadata, spec }: RawService, { omitted }: UsablePart): string | undefined {
  if (hasLabel(metadata, PROXY_NAME_LABEL))
    return `is handled by another proxy: it has the label ${PROXY_NAME_LABEL}`;
  if (spec.type === "ExternalName") return "is of type ExternalName";
  const clusterIP = firstClusterIP(spec);
  if (clusterIP === "None") return "is headless";
  if (clusterIP || omitted.some((path) => path.startsWith("spec.clusterIP"))) return undefined;
  return "has no cluster IP (the API server assigns it)";
}

/** Returns the ports, without those that repeat another's name or number, and without repeated node ports. */
export function portsOf(
  ports: readonly RawServicePort[],
  diagnostics: FieldDiagnostic[],
): readonly ServicePortSpec[] {
  const seen = new Set<string>();
  const isRepeated = (key: string, path: string, what: string): boolean => {
    const isKnown = seen.has(key);
    if (isKnown) diagnostics.push(fieldError("duplicate-port", path, `repeats the ${what} of another port`));
    seen.add(key);
    return isKnown;
  };
  const result: ServicePortSpec[] = [];
  for (const [index, raw] of ports.entries()) {
    if (isOmitted(raw)) continue;
    const path = joinPath("spec.ports", index);
    const [name, protocol, nodePort] = [raw.name ?? "", protocolOf(raw.protocol), raw.nodePort ?? 0];
    if (isRepeated(`name ${name}`, joinPath(path, "name"), "name")) continue;
    if (isRepeated(`port ${raw.port} ${protocol}`, joinPath(path, "port"), "number and protocol")) continue;
    const isNodePortFree =
      nodePort === 0 ||
      !isRepeated(`node port ${nodePort} ${protocol}`, joinPath(path, "nodePort"), "node port");
    result.push({ name, protocol, port: raw.port, nodePort: isNodePortFree ? nodePort : 0 });
  }
  return portLists.share(JSON.stringify(result), result);
}

function affinityOf(spec: RawServiceSpec): number {
  if (spec.sessionAffinity !== "ClientIP") return 0;
  return spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? DEFAULT_AFFINITY_SECONDS;
}

function healthCheckNodePortOf(spec: RawServiceSpec): number {
  return hasHealthChecks(spec) ? (spec.healthCheckNodePort ?? 0) : 0;
}
