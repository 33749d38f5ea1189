import type { V1Endpoint, V1EndpointSlice } from "@kubernetes/client-node";
import { FAMILY_NAMES, type Family } from "../../base/family.ts";
import { joinPath } from "../../base/schema-error.ts";
import { SharedValues } from "../../base/shared-values.ts";
import { quoted } from "../../base/text.ts";
import { ALL_FEATURES } from "../../features/selection.ts";
import type { EndpointSlice, SliceEndpoint, SlicePort } from "../../model/endpoint-slice.ts";
import { SliceEndpoints } from "../../model/endpoint-slice.ts";
import { serviceName } from "../../model/ids.ts";
import { canonicalAddress, isLinkLocal, isLoopback, isMulticast, isUnspecified } from "../../model/ip.ts";
import { annotatedFields, SLICE_ANNOTATIONS } from "./annotations.ts";
import {
  type Decoded,
  type FieldDiagnostic,
  hasLabel,
  invalid,
  isOmitted,
  type Optional,
  protocolOf,
  type Raw,
  type RawMetadata,
  timeOf,
  type Unusable,
  valid,
} from "./decode.ts";
import { independent, shapeOf } from "./shape.ts";

/** The label of EndpointSlices of headless Services. */
export const HEADLESS_LABEL = "service.kubernetes.io/headless";
const SERVICE_NAME_LABEL = "kubernetes.io/service-name";
const TRIGGER_TIME_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time";
/**
 * Also the pattern of a namespace. API servers do not validate these names, and `explain` prints them in
 * kubectl commands.
 */
const POD_NAME = /^[a-z0-9][a-z0-9.-]{0,252}$/;

/** Shares equal lists of ports: most EndpointSlices have one of a few. */
const portLists = new SharedValues<readonly SlicePort[]>();

type RawEndpoint = Raw<V1Endpoint>;

/** An EndpointSlice as schemas/endpointslice.schema.json accepts it. */
export interface RawEndpointSlice extends Omit<Raw<V1EndpointSlice>, "metadata" | "addressType"> {
  readonly metadata: RawMetadata;
  readonly addressType: "IPv4" | "IPv6" | "FQDN";
}

/** Decodes an EndpointSlice (discovery.k8s.io/v1) with kube-proxy's interpretation of every field. */
export function decodeEndpointSlice(object: unknown, enabled = ALL_FEATURES): Decoded<EndpointSlice> {
  const { errors, part } = shapeOf("EndpointSlice", object);
  if (part === undefined) return invalid(errors);
  const raw = part.value as RawEndpointSlice;
  const reason = notUsed(raw);
  if (reason !== undefined) return errors.length > 0 ? invalid(errors) : { kind: "ignored", reason };
  const { metadata } = raw;
  const diagnostics: FieldDiagnostic[] = [];
  const family = raw.addressType === "IPv4" ? "ip" : "ip6";
  const namespace = metadata.namespace ?? "default";
  const lastChangeTriggerTime = metadata.annotations?.[TRIGGER_TIME_ANNOTATION];
  const endpoints = endpointsOf(raw, family, namespace, diagnostics);
  const { features } = annotatedFields(SLICE_ANNOTATIONS, metadata, enabled, diagnostics);
  const value: EndpointSlice = {
    namespace,
    name: metadata.name,
    uid: metadata.uid ?? "",
    service: serviceName(namespace, metadata.labels?.[SERVICE_NAME_LABEL] ?? ""),
    family,
    ports: portsOf(raw),
    endpoints,
    ...(features && { features }),
    lastChangeTriggerTime: timeOf(
      lastChangeTriggerTime,
      joinPath("metadata.annotations", TRIGGER_TIME_ANNOTATION),
      diagnostics,
    ),
  };
  if (errors.length > 0) return invalid([...errors, ...independent(diagnostics, part)]);
  return valid(value, diagnostics);
}

/** Returns the reason why no proxy uses an EndpointSlice, undefined if it is used. */
function notUsed({ metadata, addressType }: RawEndpointSlice): string | undefined {
  if (hasLabel(metadata, HEADLESS_LABEL))
    return `belongs to a headless Service: it has the label ${HEADLESS_LABEL}`;
  if (addressType === "FQDN") return "is an FQDN EndpointSlice";
  // The API allows EndpointSlices without a Service.
  if (metadata.labels?.[SERVICE_NAME_LABEL]) return undefined;
  return `belongs to no Service: it lacks the label ${SERVICE_NAME_LABEL}`;
}

/** Returns the ports that have a number. A port without one means all ports, which no proxy can serve. */
function portsOf(raw: RawEndpointSlice): readonly SlicePort[] {
  const ports = (raw.ports ?? []).flatMap(({ name, protocol, port }): SlicePort[] =>
    port ? [{ name: name ?? "", protocol: protocolOf(protocol), port }] : [],
  );
  return portLists.share(JSON.stringify(ports), ports);
}

function endpointsOf(
  raw: RawEndpointSlice,
  family: Family,
  namespace: string,
  diagnostics: FieldDiagnostic[],
): SliceEndpoints {
  const result: SliceEndpoint[] = [];
  for (const [index, endpoint] of (raw.endpoints ?? []).entries()) {
    if (isOmitted(endpoint)) continue;
    const address = readEndpointAddress(endpoint.addresses?.[0], family);
    if (typeof address === "string") result.push(endpointOf(endpoint, address, namespace));
    else diagnostics.push({ path: `endpoints[${index}].addresses[0]`, ...address });
  }
  return new SliceEndpoints(result);
}

/** Parses the address of an endpoint. Returns it in canonical form. */
export function readEndpointAddress(text: string | undefined, family: Family): string | Unusable {
  const address = text === undefined ? undefined : canonicalAddress(text, family);
  const special = address === undefined ? undefined : specialness(address);
  if (special !== undefined) return { code: "reserved-address", reason: special, severity: "error" };
  if (address !== undefined) return address;
  const reason = `must be an ${FAMILY_NAMES[family]} address, not ${text === undefined ? "missing" : quoted(text)}`;
  return { code: "invalid-address", reason, severity: "error" };
}

/**
 * Returns the reason why a well-formed address cannot be an endpoint's, undefined if it can. Source:
 * ValidateEndpointIP,
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go, and all of
 * multicast
 */
function specialness(address: string): string | undefined {
  if (isLoopback(address)) return `${address} is a loopback address`;
  if (isLinkLocal(address)) return `${address} is a link-local address`;
  if (isMulticast(address)) return `${address} is a multicast address`;
  return isUnspecified(address) ? `${address} is the unspecified address` : undefined;
}

function endpointOf(raw: RawEndpoint, address: string, namespace: string): SliceEndpoint {
  const { conditions } = raw;
  return {
    address,
    nodeName: raw.nodeName ?? "",
    zone: raw.zone ?? "",
    ready: conditions?.ready ?? true,
    serving: conditions?.serving ?? true,
    terminating: conditions?.terminating ?? false,
    zoneHints: hintsOf(raw.hints?.forZones),
    nodeHints: hintsOf(raw.hints?.forNodes),
    pod: podOf(raw, namespace),
  };
}

/** Shared to save time: most endpoints have no hints. */
const NO_HINTS: readonly string[] = [];

function hintsOf(hints: Optional<readonly { readonly name?: Optional<string> }[]>): readonly string[] {
  return hints ? hints.map((hint) => hint.name ?? "") : NO_HINTS;
}

function podOf({ targetRef }: RawEndpoint, namespace: string): string {
  if (!targetRef) return "";
  const [inNamespace, name] = [targetRef.namespace || namespace, targetRef.name ?? ""];
  const isPod = targetRef.kind === "Pod" && POD_NAME.test(inNamespace) && POD_NAME.test(name);
  return isPod ? `${inNamespace}/${name}` : "";
}
