import { byFamily } from "../../base/family.ts";
import { joinPath } from "../../base/schema-error.ts";
import { quoted } from "../../base/text.ts";
import {
  type FieldDiagnostic,
  fieldError,
  type RawMetadata,
  type Unusable,
  type UsablePart,
} from "../../kube/decode/decode.ts";
import type { DiagnosticCode } from "../../kube/decode/diagnostic-code.ts";
import { type RawEndpointSlice, readEndpointAddress } from "../../kube/decode/endpoint-slice.ts";
import type { RawServiceCIDR } from "../../kube/decode/node.ts";
import {
  hasHealthChecks,
  ingressOf,
  isHeadless,
  isReachedFromOutside,
  type RawService,
  type RawServiceSpec,
} from "../../kube/decode/raw-service.ts";
import { portsOf } from "../../kube/decode/service.ts";
import { externalAddressesOf } from "../../kube/decode/service-addresses.ts";
import { independent, type ObjectKind } from "../../kube/decode/shape.ts";
import { canonicalAddress, canonicalCidr, familyOf } from "../../model/ip.ts";

/** A rule about several fields or items of an object, which no schema states. */
export interface ApiRule<Raw> {
  readonly find: (raw: Raw) => readonly FieldDiagnostic[];
  /** Other fields that the rule depends on: it does not apply if one of them is invalid. */
  readonly of: readonly string[];
}

/** A path, if a condition before it was true: `isSet && "spec.type"`. */
type PathIf = string | false | 0 | null | undefined;

/**
 * @param pathsOf returns the paths of the fields that break the rule
 * @param of as in {@link ApiRule}, besides the type, on which most rules of Services depend
 */
function rule<Raw>(
  code: DiagnosticCode,
  reason: string,
  pathsOf: (raw: Raw) => readonly PathIf[],
  of: readonly string[] = [],
): ApiRule<Raw> {
  const find = (raw: Raw) => pathsOf(raw).flatMap((path) => (path ? fieldError(code, path, reason) : []));
  return { find, of: [...of, "spec.type"] };
}

type List<Item> = readonly Item[] | null | undefined;

/** Returns the paths of the items with a property, or of a field of these items. Arrays may have holes. */
function itemPaths<Item>(items: List<Item>, path: string, field: string, has: (item: Item) => unknown) {
  const pathOf = (index: number) => joinPath(path, index) + (field === "" ? "" : `.${field}`);
  return (items ?? []).map((item, index) => Boolean(has(item)) && pathOf(index));
}

/** Returns the paths of the items whose key an earlier item has. */
function repeatedPaths<Item>(items: List<Item>, path: string, field: string, keyOf: (item: Item) => unknown) {
  const seen = new Set<unknown>();
  return itemPaths(items, path, field, (item) => seen.size === seen.add(keyOf(item)).size);
}

/** Bytes. Source: TotalAnnotationSizeLimitB, in the same file as the rules. */
const MOST_ANNOTATIONS = 262_144;

function annotationBytes({ annotations }: RawMetadata): number {
  const texts = Object.entries(annotations ?? {}).flat();
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text ?? ""), 0);
}

/**
 * Source: ValidateObjectMeta,
 * https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/validation/objectmeta.go
 */
const METADATA_RULES: readonly ApiRule<{ readonly metadata: RawMetadata }>[] = [
  rule("invalid-value", `must have at most ${MOST_ANNOTATIONS} bytes in total`, ({ metadata }) => [
    annotationBytes(metadata) > MOST_ANNOTATIONS && "metadata.annotations",
  ]),
  rule("invalid-value", "cannot have both orphan and foregroundDeletion", ({ metadata: { finalizers } }) => [
    finalizers?.includes("orphan") && finalizers.includes("foregroundDeletion") && "metadata.finalizers",
  ]),
  rule("invalid-value", "can have only one reference with `controller` set to true", ({ metadata }) => [
    (metadata.ownerReferences ?? []).filter((one) => one.controller).length > 1 && "metadata.ownerReferences",
  ]),
];

const TOPOLOGY_MODE = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints";
const SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges";

/** The default of kube-apiserver's `--service-node-port-range`. */
const [LOWEST, HIGHEST] = [30_000, 32_767];

const LOAD_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'";

function typeOf({ spec }: RawService): string {
  return spec.type || "ClusterIP";
}

/** Returns the paths of those of some fields of the spec that are set. */
function setFields({ spec }: RawService, ...names: readonly (keyof RawServiceSpec)[]): string[] {
  const isSet = (value: unknown) =>
    value != null && value !== "" && !(Array.isArray(value) && value.length === 0);
  return names.filter((name) => isSet(spec[name])).map((name) => `spec.${name}`);
}

function hasNodePorts(raw: RawService): boolean {
  return ["NodePort", "LoadBalancer"].includes(typeOf(raw));
}

/** What the annotation says about source ranges; undefined if the field overrides it. */
function annotatedRanges({ metadata, spec }: RawService): string | null | undefined {
  return spec.loadBalancerSourceRanges?.length ? undefined : metadata.annotations?.[SOURCE_RANGES];
}

function areCidrs(text: string): boolean {
  return text.trim() === "" || text.split(",").every((cidr) => canonicalCidr(cidr.trim()) !== undefined);
}

/**
 * Whether a Service has at most one family. Source: initIPFamilyFields,
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/registry/core/service/storage/alloc.go
 */
function isSingleStack({ spec }: RawService): boolean {
  const isFree = isHeadless(spec) && Object.keys(spec.selector ?? {}).length === 0;
  return (spec.ipFamilyPolicy ?? (isFree ? "RequireDualStack" : "SingleStack")) === "SingleStack";
}

function hasTwoFamilies({ spec: { ipFamilies, clusterIPs } }: RawService): boolean {
  const addresses = (clusterIPs ?? []).flatMap((text) => canonicalAddress(text) ?? []);
  return new Set(ipFamilies).size > 1 || new Set(addresses.map(familyOf)).size > 1;
}

/** A CNAME may end with a dot. */
const EXTERNAL_NAME = /^(?=.{1,253}\.?$)[a-z\d](?:[-a-z\d]*[a-z\d])?(?:\.[a-z\d](?:[-a-z\d]*[a-z\d])?)*\.?$/;

/**
 * Source: ValidateService and ValidateLoadBalancerStatus,
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go
 */
const SERVICE_RULES: readonly ApiRule<RawService>[] = [
  rule(
    "invalid-value",
    `must match annotations[${TOPOLOGY_HINTS}] when both are specified`,
    ({ metadata }) => {
      const { [TOPOLOGY_MODE]: mode, [TOPOLOGY_HINTS]: hints } = metadata.annotations ?? {};
      return [
        mode != null && hints != null && mode !== hints && joinPath("metadata.annotations", TOPOLOGY_MODE),
      ];
    },
  ),
  rule("invalid-cidr", "must be CIDRs, separated by commas", (raw) => [
    !areCidrs(annotatedRanges(raw) ?? "") && joinPath("metadata.annotations", SOURCE_RANGES),
  ]),
  rule(
    "field-not-allowed",
    LOAD_BALANCER_ONLY,
    (raw) =>
      typeOf(raw) === "LoadBalancer"
        ? []
        : [
            annotatedRanges(raw) != null && joinPath("metadata.annotations", SOURCE_RANGES),
            ...setFields(raw, "allocateLoadBalancerNodePorts", "loadBalancerClass"),
            ingressOf(raw).length > 0 && "status.loadBalancer.ingress",
          ],
    ["spec.loadBalancerSourceRanges"],
  ),
  rule("source-ranges-ignored", LOAD_BALANCER_ONLY, (raw) =>
    typeOf(raw) === "LoadBalancer" ? [] : setFields(raw, "loadBalancerSourceRanges"),
  ),
  rule("field-not-allowed", "may not be set for ExternalName services", (raw) =>
    typeOf(raw) === "ExternalName"
      ? setFields(raw, "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
      : [],
  ),
  rule("missing-field", "is required with type ExternalName", (raw) => [
    typeOf(raw) === "ExternalName" && !raw.spec.externalName && "spec.externalName",
  ]),
  rule("invalid-value", "must be a DNS subdomain", (raw) => [
    typeOf(raw) === "ExternalName" &&
      raw.spec.externalName &&
      !EXTERNAL_NAME.test(raw.spec.externalName) &&
      "spec.externalName",
  ]),
  rule("field-not-allowed", "may not be set to 'None' for NodePort and LoadBalancer services", (raw) => [
    isHeadless(raw.spec) && hasNodePorts(raw) && "spec.clusterIP",
  ]),
  rule(
    "cluster-ip-mismatch",
    "must be empty when `clusterIP` is not specified",
    (raw) => (typeOf(raw) === "ExternalName" || raw.spec.clusterIP ? [] : setFields(raw, "clusterIPs")),
    ["spec.clusterIP"],
  ),
  rule(
    "cluster-ip-mismatch",
    "must have 'None' as the first and only value, as `clusterIP` says",
    ({ spec }) => [
      spec.clusterIP === "None" && spec.clusterIPs?.some((text) => text !== "None") && "spec.clusterIPs",
    ],
  ),
  rule("invalid-value", "repeats the other IP family", ({ spec }) =>
    repeatedPaths(spec.ipFamilies, "spec.ipFamilies", "", (family) => family),
  ),
  rule(
    "invalid-value",
    "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
    (raw) => [
      typeOf(raw) !== "ExternalName" && isSingleStack(raw) && hasTwoFamilies(raw) && "spec.ipFamilyPolicy",
    ],
    ["spec.clusterIP"],
  ),
  rule("missing-field", "is required if there are several ports", ({ spec: { ports } }) =>
    (ports?.length ?? 0) > 1 ? itemPaths(ports, "spec.ports", "name", ({ name }) => !name) : [],
  ),
  rule("field-not-allowed", "may not be used when `type` is 'ClusterIP'", (raw) =>
    typeOf(raw) === "ClusterIP"
      ? itemPaths(raw.spec.ports, "spec.ports", "nodePort", ({ nodePort }) => nodePort)
      : [],
  ),
  rule("node-port-range", `is not in the node port range ${LOWEST}-${HIGHEST}`, (raw) =>
    hasNodePorts(raw)
      ? itemPaths(raw.spec.ports, "spec.ports", "nodePort", ({ nodePort }) => {
          return nodePort && (nodePort < LOWEST || nodePort > HIGHEST);
        })
      : [],
  ),
  rule(
    "field-not-allowed",
    "may only be set for externally accessible Services: of type NodePort or LoadBalancer, or with externalIPs",
    ({ spec }) => [spec.externalTrafficPolicy && !isReachedFromOutside(spec) && "spec.externalTrafficPolicy"],
    ["spec.externalIPs"],
  ),
  rule(
    "field-not-allowed",
    "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
    ({ spec }) => [spec.healthCheckNodePort && !hasHealthChecks(spec) && "spec.healthCheckNodePort"],
    ["spec.externalTrafficPolicy"],
  ),
  rule(
    "field-not-allowed",
    "must not be set when session affinity is None",
    ({ spec }) => [
      spec.sessionAffinityConfig && spec.sessionAffinity !== "ClientIP" && "spec.sessionAffinityConfig",
    ],
    ["spec.sessionAffinity"],
  ),
  rule("field-not-allowed", "may not be specified when `ip` is not set", (raw) =>
    itemPaths(ingressOf(raw), "status.loadBalancer.ingress", "ipMode", ({ ip, ipMode }) => ipMode && !ip),
  ),
  rule("invalid-value", "must be a DNS name, not an IP address", (raw) =>
    itemPaths(
      ingressOf(raw),
      "status.loadBalancer.ingress",
      "hostname",
      ({ hostname }) => hostname && canonicalAddress(hostname) !== undefined,
    ),
  ),
];

/** IsFullyQualifiedDomainName */
const FULL_NAME =
  /^(?=.{1,253}\.?$)[a-z\d](?:[-a-z\d]{0,61}[a-z\d])?(?:\.[a-z\d](?:[-a-z\d]{0,61}[a-z\d])?)+\.?$/;

/** Returns the errors of some addresses of each endpoint. */
function addressErrors(
  { addressType, endpoints }: RawEndpointSlice,
  first: number,
  end?: number,
): FieldDiagnostic[] {
  return (endpoints ?? []).flatMap(({ addresses }, index) => {
    const texts: readonly (string | undefined)[] = addresses?.length ? addresses : [undefined];
    return texts.slice(first, end).flatMap((text, offset) => {
      const read = readAddress(text, addressType);
      const path = joinPath(`endpoints[${index}].addresses`, first + offset);
      return typeof read === "string" ? [] : [{ path, ...read }];
    });
  });
}

function readAddress(text = "", addressType: RawEndpointSlice["addressType"]): string | Unusable {
  if (addressType !== "FQDN") return readEndpointAddress(text, addressType === "IPv4" ? "ip" : "ip6");
  if (FULL_NAME.test(text)) return text;
  const reason = `must be a domain name with at least two segments, not ${quoted(text)}`;
  return { code: "invalid-address", reason, severity: "error" };
}

const HINTS = ["forZones", "forNodes"] as const;

/**
 * Source: ValidateEndpointSlice,
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/discovery/validation/validation.go
 */
const SLICE_RULES: readonly ApiRule<RawEndpointSlice>[] = [
  { find: (raw) => addressErrors(raw, 1), of: [] },
  rule("duplicate-port", "repeats the name of another port", ({ ports }) =>
    repeatedPaths(ports, "ports", "name", ({ name }) => name ?? ""),
  ),
  rule("invalid-value", "repeats another hint", ({ endpoints }) =>
    (endpoints ?? []).flatMap(({ hints }, index) =>
      HINTS.flatMap((field) =>
        repeatedPaths(hints?.[field], `endpoints[${index}].hints.${field}`, "name", ({ name }) => name),
      ),
    ),
  ),
];

const SERVICE_CIDR_RULES: readonly ApiRule<RawServiceCIDR>[] = [
  rule("invalid-cidr", "may specify no more than one CIDR for each IP family", ({ spec: { cidrs } }) => {
    const families = (cidrs ?? []).map((text) => (text.includes(":") ? "ip6" : "ip"));
    return [new Set(families).size < families.length && "spec.cidrs"];
  }),
];

/**
 * The kinds that are checked as the API server does. Nodes are written by their kubelets: only what a decoder
 * reads of them is checked.
 */
export type CheckedKind = Exclude<ObjectKind, "Node">;

const RULES: Readonly<Record<CheckedKind, readonly ApiRule<never>[]>> = {
  Service: [...METADATA_RULES, ...SERVICE_RULES],
  EndpointSlice: [...METADATA_RULES, ...SLICE_RULES],
  ServiceCIDR: [...METADATA_RULES, ...SERVICE_CIDR_RULES],
};

/** The rules that decoders check in objects that are used. */
const RULES_OF_IGNORED: Readonly<Record<CheckedKind, readonly ApiRule<never>[]>> = {
  Service: [
    { find: decodedParts, of: ["spec.type"] },
    rule("missing-field", "must have a port", (raw: RawService) => [
      !raw.spec.ports?.length && !isHeadless(raw.spec) && typeOf(raw) !== "ExternalName" && "spec.ports",
    ]),
  ],
  EndpointSlice: [{ find: (raw: RawEndpointSlice) => addressErrors(raw, 0, 1), of: [] }],
  ServiceCIDR: [],
};

/** Returns the errors in the ports and external addresses of a Service. */
function decodedParts(raw: RawService): readonly FieldDiagnostic[] {
  const diagnostics: FieldDiagnostic[] = [];
  portsOf(raw.spec.ports ?? [], diagnostics);
  externalAddressesOf(
    raw,
    byFamily(() => true),
    diagnostics,
  );
  return diagnostics;
}

/**
 * Returns the errors by the rules about several fields or items.
 * @param part the part of the object that has the right types
 * @param isIgnored true for an object that is not used, which has not been decoded
 */
export function ruleErrors(
  kind: CheckedKind,
  part: UsablePart,
  isIgnored: boolean,
): readonly FieldDiagnostic[] {
  const rules = [...RULES[kind], ...(isIgnored ? RULES_OF_IGNORED[kind] : [])];
  const applicable = rules.filter(({ of }) => !of.some((path) => part.omitted.includes(path)));
  return independent(
    applicable.flatMap(({ find }) => find(part.value as never)),
    part,
  );
}
