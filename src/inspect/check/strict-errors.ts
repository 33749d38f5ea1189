import { didYouMean, withHint } from "../../base/nearest.ts";
import { joinPath } from "../../base/schema-error.ts";
import { quoted } from "../../base/text.ts";
import { SERVICE_ANNOTATIONS, SLICE_ANNOTATIONS } from "../../kube/decode/annotations.ts";
import {
  type FieldDiagnostic,
  fieldError,
  fieldWarning,
  located,
  protocolOf,
} from "../../kube/decode/decode.ts";
import { DIAGNOSTIC_CODES, type DiagnosticCode } from "../../kube/decode/diagnostic-code.ts";
import type { RawService } from "../../kube/decode/raw-service.ts";
import { independent, type ObjectKind } from "../../kube/decode/shape.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { type FilesResult, type InvalidObject, writtenBy } from "../../kube/files/object-gatherer.ts";
import { canonicalAddress } from "../../model/ip.ts";
import { compareAge } from "../../model/service.ts";
import { annotationsOf, EXCLUDING } from "./exclusions.ts";
import { locate, placeText, type Subject, sliceSubjects } from "./subject.ts";

/** A Service of the files, served or not, and the part of it that has the right types. */
interface WrittenService {
  readonly subject: Subject;
  readonly raw: RawService;
  readonly omitted: readonly string[];
}

/**
 * Returns the errors that the API server would report and that do not matter to a proxy: unknown fields (as
 * with `kubectl --validate=strict`), and rules of Services; and warnings about unknown annotations of
 * nft-proxy. Objects with other errors are included. The files must be read thoroughly.
 */
export function strictErrors({ objects, ignored, invalid }: FilesResult): Diagnostic[] {
  const byAge = objects.services.toSorted((a, b) => compareAge(a.value, b.value));
  const served = byAge.map((from) => ({ ...from, object: `Service ${from.value.name}` }));
  const slices = sliceSubjects(objects);
  const serviceCIDRs = objects.serviceCIDRs.map((from) => {
    return { ...from, object: `ServiceCIDR ${from.value.name}` };
  });
  const others = (kind: ObjectKind) => [
    ...ignored.filter(({ object }) => object.startsWith(`${kind} `)),
    ...invalid.filter(({ of }) => of === kind),
  ];
  const services = [...served, ...others("Service")];
  const written = services.flatMap(writtenService);
  return [
    ...services.flatMap((subject) => nameErrors("Service", subject)),
    ...[...slices, ...others("EndpointSlice")].flatMap((subject) => nameErrors("EndpointSlice", subject)),
    ...[...serviceCIDRs, ...others("ServiceCIDR")].flatMap((subject) => nameErrors("ServiceCIDR", subject)),
    ...written.flatMap(serviceRuleErrors),
    ...duplicateErrors(written, "duplicate-node-port", nodePortsOf),
    ...duplicateErrors(written, "duplicate-cluster-ip", clusterIPsOf),
  ];
}

function writtenService(subject: Subject | InvalidObject): WrittenService[] {
  if (!("of" in subject)) return [{ subject, raw: writtenBy(subject) as RawService, omitted: [] }];
  const { usable } = subject;
  return usable === undefined ? [] : [{ subject, raw: usable.value as RawService, omitted: usable.omitted }];
}

/** Returns diagnostics of names that nothing reads: fields, and annotations of nft-proxy. */
function nameErrors(kind: ObjectKind, subject: Subject): Diagnostic[] {
  return [
    ...unknownFieldErrors(kind, subject),
    ...unknownAnnotations(kind, subject).map((found) => locate(subject, found)),
  ];
}

const PREFIX = "nft-proxy.io/";

/** The annotations of nft-proxy, by the kind that has them. */
const ANNOTATIONS: Readonly<Record<ObjectKind, readonly string[]>> = {
  Service: SERVICE_ANNOTATIONS.map(({ annotation }) => annotation.name),
  EndpointSlice: SLICE_ANNOTATIONS.map(({ annotation }) => annotation.name),
  Node: [],
  ServiceCIDR: [],
};

function unknownAnnotations(kind: ObjectKind, subject: Subject): FieldDiagnostic[] {
  const known = ANNOTATIONS[kind];
  return Object.keys(annotationsOf(subject)).flatMap((name) => {
    if (known.includes(name)) return [];
    const reason = unknownAnnotationReason(kind, name);
    const path = joinPath("metadata.annotations", name);
    return reason === undefined ? [] : [fieldWarning("unknown-annotation", path, reason)];
  });
}

function unknownAnnotationReason(kind: ObjectKind, name: string): string | undefined {
  if (name.startsWith(EXCLUDING)) {
    const code = name.slice(EXCLUDING.length);
    if (DIAGNOSTIC_CODES.some((known) => known === code)) return undefined;
    return withHint("names no diagnostic", didYouMean(code, DIAGNOSTIC_CODES));
  }
  if (!name.startsWith(PREFIX)) return undefined;
  const owner = Object.entries(ANNOTATIONS).find(([, names]) => names.includes(name));
  if (owner !== undefined) return `has no effect: it is an annotation of ${owner[0]}s`;
  const known = ANNOTATIONS[kind].map((one) => one.slice(PREFIX.length));
  return withHint("is not an annotation of nft-proxy", didYouMean(name.slice(PREFIX.length), known));
}

/** Returns an error for each field that the API does not have, with the most similar field that it has. */
function unknownFieldErrors(kind: ObjectKind, subject: Subject): Diagnostic[] {
  return errorsIn(writtenBy(subject), KNOWN_FIELDS[kind], "", subject);
}

function errorsIn(value: unknown, fields: FieldTree, path: string, subject: Subject): Diagnostic[] {
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => errorsIn(item, fields, joinPath(path, index), subject));
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (known === true) return [];
    if (known !== undefined) return errorsIn(inner, known, joinPath(path, name), subject);
    const reason = withHint("is not a field of the API", didYouMean(name, Object.keys(fields)));
    return [locate(subject, fieldError("unknown-field", joinPath(path, name), reason))];
  });
}

/**
 * The fields of an object, or of the items of an array. `true` stands for a value or a map whose content is
 * not checked.
 */
export interface FieldTree {
  readonly [name: string]: true | FieldTree;
}

function values<Name extends string>(...names: readonly Name[]): Readonly<Record<Name, true>> {
  return Object.fromEntries(names.map((name) => [name, true])) as Readonly<Record<Name, true>>;
}

const OBJECT = {
  ...values("apiVersion", "kind"),
  metadata: values(
    ...(["name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation"] as const),
    ...(["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] as const),
    ...(["labels", "annotations", "ownerReferences", "finalizers", "managedFields"] as const),
  ),
};

const OBJECT_REFERENCE = values(
  "kind",
  "namespace",
  "name",
  "uid",
  "apiVersion",
  "resourceVersion",
  "fieldPath",
);

/**
 * All fields of Kubernetes 1.36 of the kinds that are read, also those that nft-proxy ignores. A Node is
 * written by its kubelet and not by hand: its fields are not listed. Source:
 * https://kubernetes.io/docs/reference/kubernetes-api/
 */
const KNOWN_FIELDS: Readonly<Record<ObjectKind, FieldTree>> = {
  Service: {
    ...OBJECT,
    spec: {
      ports: values("name", "protocol", "appProtocol", "port", "targetPort", "nodePort"),
      ...values(
        "selector",
        "clusterIP",
        "clusterIPs",
        "type",
        "externalIPs",
        "sessionAffinity",
        "loadBalancerIP",
      ),
      ...values("loadBalancerSourceRanges", "externalName", "externalTrafficPolicy", "healthCheckNodePort"),
      ...values("publishNotReadyAddresses", "ipFamilies", "ipFamilyPolicy", "allocateLoadBalancerNodePorts"),
      ...values("loadBalancerClass", "internalTrafficPolicy", "trafficDistribution"),
      sessionAffinityConfig: { clientIP: values("timeoutSeconds") },
    },
    status: {
      loadBalancer: {
        ingress: { ...values("ip", "hostname", "ipMode"), ports: values("port", "protocol", "error") },
      },
      conditions: true,
    },
  },
  EndpointSlice: {
    ...OBJECT,
    addressType: true,
    endpoints: {
      ...values("addresses", "hostname", "deprecatedTopology", "nodeName", "zone"),
      conditions: values("ready", "serving", "terminating"),
      targetRef: OBJECT_REFERENCE,
      hints: { forZones: values("name"), forNodes: values("name") },
    },
    ports: values("name", "protocol", "port", "appProtocol"),
  },
  ServiceCIDR: { ...OBJECT, spec: values("cidrs"), status: values("conditions") },
  Node: { ...OBJECT, spec: true, status: true },
};

/** The default of kube-apiserver's `--service-node-port-range`. */
const NODE_PORTS = [30_000, 32_767] as const;

/**
 * Returns an error for each rule of the API server that a Service breaks and that does not matter to the
 * rules of nft-proxy, so that the decoder accepts it. Source: ValidateService,
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go
 */
function serviceRuleErrors({ subject, raw: { spec }, omitted }: WrittenService): Diagnostic[] {
  // A rule about several fields cannot be checked without one of them.
  const areKnown = (...fields: readonly (keyof typeof spec)[]) =>
    !fields.some((field) => omitted.includes(`spec.${field}`));
  if (!areKnown("type")) return [];
  const errors = [
    ...(areKnown("clusterIP", "clusterIPs", "externalName") ? typeErrors(spec) : []),
    ...portErrors(spec),
    ...(areKnown("externalIPs", "externalTrafficPolicy", "sessionAffinity") ? policyErrors(spec) : []),
  ];
  return independent(errors, { omitted }).map((found) => locate(subject, found));
}

function typeErrors(spec: RawService["spec"]): FieldDiagnostic[] {
  const type = spec.type || "ClusterIP";
  const isHeadless = (spec.clusterIP || spec.clusterIPs?.[0]) === "None";
  const errors: FieldDiagnostic[] = [];
  if (type === "ExternalName" && !spec.externalName) {
    errors.push(fieldError("missing-field", "spec.externalName", "is required with type ExternalName"));
  }
  if (type === "ExternalName" && spec.clusterIP) {
    errors.push(notAllowed("spec.clusterIP", "must not be set with type ExternalName"));
  }
  if (isHeadless && (type === "NodePort" || type === "LoadBalancer")) {
    errors.push(notAllowed("spec.clusterIP", `must not be None with type ${type}`));
  }
  return errors;
}

function notAllowed(path: string, reason: string): FieldDiagnostic {
  return fieldError("field-not-allowed", path, reason);
}

function portErrors({ type, ports }: RawService["spec"]): FieldDiagnostic[] {
  const hasNodePorts = type === "NodePort" || type === "LoadBalancer";
  const [lowest, highest] = NODE_PORTS;
  return (ports ?? []).flatMap(({ name, nodePort, targetPort }, index) => {
    const path = joinPath("spec.ports", index);
    const errors: FieldDiagnostic[] = [];
    if (!name && (ports ?? []).length > 1) {
      const reason = "is required if there are several ports";
      errors.push(fieldError("missing-field", joinPath(path, "name"), reason));
    }
    if (targetPort && !isTargetPort(targetPort)) {
      const reason = `must be a number from 1 to 65535 or a port's name, with a letter and at most 15 characters, not ${quoted(targetPort)}`;
      errors.push(fieldError("invalid-value", joinPath(path, "targetPort"), reason));
    }
    if (!nodePort) return errors;
    const nodePortPath = joinPath(path, "nodePort");
    if (!hasNodePorts) {
      errors.push(notAllowed(nodePortPath, `must not be set with type ${type || "ClusterIP"}`));
    } else if (nodePort < lowest || nodePort > highest) {
      const reason = `${nodePort} is not in the node port range ${lowest}-${highest}`;
      errors.push(fieldError("node-port-range", nodePortPath, reason));
    }
    return errors;
  });
}

/** Whether a value, which no decoder has checked, is a number of a port or the name of a container's port. */
function isTargetPort(value: unknown): boolean {
  if (typeof value === "string") return /^(?=.{1,15}$)(?=.*[a-z])[a-z\d]+(?:-[a-z\d]+)*$/.test(value);
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 65_535;
}

function policyErrors(spec: RawService["spec"]): FieldDiagnostic[] {
  const type = spec.type || "ClusterIP";
  const isExternal = type === "NodePort" || type === "LoadBalancer" || Boolean(spec.externalIPs?.length);
  const errors: FieldDiagnostic[] = [];
  if (spec.externalTrafficPolicy && !isExternal) {
    const reason = `must not be set with type ${type} without externalIPs`;
    errors.push(notAllowed("spec.externalTrafficPolicy", reason));
  }
  if (spec.healthCheckNodePort && !(type === "LoadBalancer" && spec.externalTrafficPolicy === "Local")) {
    const reason = "must not be set without type LoadBalancer and externalTrafficPolicy Local";
    errors.push(notAllowed("spec.healthCheckNodePort", reason));
  }
  if (spec.sessionAffinityConfig && spec.sessionAffinity !== "ClientIP") {
    errors.push(notAllowed("spec.sessionAffinityConfig", "must not be set without sessionAffinity ClientIP"));
  }
  return errors;
}

/** A value that the API server gives to one Service only. */
interface Allocated {
  readonly key: string;
  /** The value in messages. */
  readonly text: string;
  readonly path: string;
}

function nodePortsOf({ ports }: RawService["spec"]): Allocated[] {
  return (ports ?? []).flatMap(({ protocol, nodePort }, index) => {
    const path = joinPath(joinPath("spec.ports", index), "nodePort");
    return nodePort ? [{ key: `${protocolOf(protocol)} ${nodePort}`, text: `${nodePort}`, path }] : [];
  });
}

function clusterIPsOf({ clusterIP, clusterIPs }: RawService["spec"]): Allocated[] {
  const texts = clusterIPs?.length
    ? located(clusterIPs, "spec.clusterIPs")
    : [{ text: clusterIP ?? "", path: "spec.clusterIP" }];
  return texts.flatMap(({ text, path }) => {
    const address = canonicalAddress(text);
    return address === undefined ? [] : [{ key: address, text: address, path }];
  });
}

/**
 * Returns an error for each value that another Service has already.
 * @param services in the order of precedence: the first one keeps the value
 */
function duplicateErrors(
  services: readonly WrittenService[],
  code: DiagnosticCode,
  valuesOf: (spec: RawService["spec"]) => readonly Allocated[],
): Diagnostic[] {
  const holders = new Map<string, Subject>();
  return services.flatMap(({ subject, raw }) =>
    valuesOf(raw.spec).flatMap(({ key, text, path }) => {
      const holder = holders.get(key);
      if (holder === undefined || holder === subject) {
        holders.set(key, subject);
        return [];
      }
      const reason = `${text} belongs to ${holder.object} (${placeText(holder)}), which is older or comes first by name`;
      return [locate(subject, fieldError(code, path, reason))];
    }),
  );
}
