import { didYouMean } from "../../base/nearest.ts";
import { joinPath } from "../../base/schema-error.ts";
import { protocolOf } from "../../kube/decode/decode.ts";
import type { RawService } from "../../kube/decode/raw-service.ts";
import type { ObjectKind } from "../../kube/decode/shape.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { type FilesResult, writtenBy } from "../../kube/files/object-gatherer.ts";
import { compareAge } from "../../model/service.ts";
import { errorAt, placeText, type Subject } from "./subject.ts";

/**
 * Returns the errors that the API server would report and that do not matter to a proxy: unknown fields (as with
 * `kubectl --validate=strict`), also of objects with other errors, and rules of Services. The files must be read thoroughly.
 */
export function strictErrors({ objects, ignored, invalid }: FilesResult): Diagnostic[] {
  const others = (kind: ObjectKind) => ignored.filter(({ object }) => object.startsWith(`${kind} `));
  const served = objects.services.map((from) => ({ ...from, object: `Service ${from.value.name}` }));
  const services: Subject[] = [...served, ...others("Service")];
  const byAge = served.toSorted((a, b) => compareAge(a.value, b.value));
  const slices: Subject[] = [
    ...objects.endpointSlices.map((from) => {
      return { ...from, object: `EndpointSlice ${from.value.namespace}/${from.value.name}` };
    }),
    ...others("EndpointSlice"),
  ];
  const serviceCIDRs = objects.serviceCIDRs.map((from) => ({
    ...from,
    object: `ServiceCIDR ${from.value.name}`,
  }));
  return [
    ...services.flatMap((subject) => [
      ...unknownFieldErrors("Service", subject),
      ...serviceRuleErrors(subject),
    ]),
    ...duplicateNodePortErrors([...byAge, ...others("Service")]),
    ...slices.flatMap((subject) => unknownFieldErrors("EndpointSlice", subject)),
    ...serviceCIDRs.flatMap((subject) => unknownFieldErrors("ServiceCIDR", subject)),
    // A misspelt name is often why another field is missing.
    ...invalid.flatMap(({ of, ...subject }) => unknownFieldErrors(of, subject)),
  ];
}

/** Returns an error for each field that the API does not have, with the nearest field that it has. */
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
    const hint = didYouMean(name, Object.keys(fields));
    const reason = `is not a field of the API${hint === undefined ? "" : `: ${hint}`}`;
    return [errorAt(subject, joinPath(path, name), reason)];
  });
}

/** The fields of an object, or of the items of an array. `true` stands for a value or a map that is not looked into. */
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
 * All fields of Kubernetes 1.36 of the kinds that are read, also those that nft-proxy ignores. A Node is written by its
 * kubelet and not by hand: its fields are not listed. Source: https://kubernetes.io/docs/reference/kubernetes-api/
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
 * Returns an error for each rule of the API server that a Service breaks and that does not matter to the rules of nft-proxy,
 * so that the decoder accepts it. Source: ValidateService,
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go
 */
function serviceRuleErrors(subject: Subject): Diagnostic[] {
  const { spec } = writtenBy(subject) as RawService;
  return [...typeErrors(subject, spec), ...portErrors(subject, spec), ...policyErrors(subject, spec)];
}

function typeErrors(subject: Subject, spec: RawService["spec"]): Diagnostic[] {
  const type = spec.type || "ClusterIP";
  const isHeadless = (spec.clusterIP || spec.clusterIPs?.[0]) === "None";
  const errors: Diagnostic[] = [];
  if (type === "ExternalName" && !spec.externalName) {
    errors.push(errorAt(subject, "spec.externalName", "is required with type ExternalName"));
  }
  if (type === "ExternalName" && spec.clusterIP) {
    errors.push(errorAt(subject, "spec.clusterIP", "must not be set with type ExternalName"));
  }
  if (isHeadless && (type === "NodePort" || type === "LoadBalancer")) {
    errors.push(errorAt(subject, "spec.clusterIP", `must not be None with type ${type}`));
  }
  return errors;
}

function portErrors(subject: Subject, { type, ports }: RawService["spec"]): Diagnostic[] {
  const hasNodePorts = type === "NodePort" || type === "LoadBalancer";
  const [lowest, highest] = NODE_PORTS;
  return (ports ?? []).flatMap(({ name, nodePort }, index) => {
    const path = joinPath("spec.ports", index);
    const errors: Diagnostic[] = [];
    if (!name && (ports ?? []).length > 1) {
      errors.push(errorAt(subject, joinPath(path, "name"), "is required if there are several ports"));
    }
    if (!nodePort) return errors;
    const nodePortPath = joinPath(path, "nodePort");
    if (!hasNodePorts) {
      errors.push(errorAt(subject, nodePortPath, `must not be set with type ${type || "ClusterIP"}`));
    } else if (nodePort < lowest || nodePort > highest) {
      errors.push(
        errorAt(subject, nodePortPath, `${nodePort} is not in the node port range ${lowest}-${highest}`),
      );
    }
    return errors;
  });
}

function policyErrors(subject: Subject, spec: RawService["spec"]): Diagnostic[] {
  const type = spec.type || "ClusterIP";
  const isExternal = type === "NodePort" || type === "LoadBalancer" || Boolean(spec.externalIPs?.length);
  const errors: Diagnostic[] = [];
  if (spec.externalTrafficPolicy && !isExternal) {
    errors.push(
      errorAt(subject, "spec.externalTrafficPolicy", `must not be set with type ${type} without externalIPs`),
    );
  }
  if (spec.healthCheckNodePort && !(type === "LoadBalancer" && spec.externalTrafficPolicy === "Local")) {
    const reason = "must not be set without type LoadBalancer and externalTrafficPolicy Local";
    errors.push(errorAt(subject, "spec.healthCheckNodePort", reason));
  }
  if (spec.sessionAffinityConfig && spec.sessionAffinity !== "ClientIP") {
    errors.push(
      errorAt(subject, "spec.sessionAffinityConfig", "must not be set without sessionAffinity ClientIP"),
    );
  }
  return errors;
}

/**
 * Returns an error for each node port that another Service has with the same protocol.
 * @param subjects in the order of precedence: the first one keeps the node port
 */
function duplicateNodePortErrors(subjects: readonly Subject[]): Diagnostic[] {
  const holders = new Map<string, Subject>();
  return subjects.flatMap((subject) => {
    const { ports } = (writtenBy(subject) as RawService).spec;
    return (ports ?? []).flatMap(({ protocol, nodePort }, index) => {
      if (!nodePort) return [];
      const key = `${protocolOf(protocol)} ${nodePort}`;
      const holder = holders.get(key);
      if (holder === undefined || holder === subject) {
        holders.set(key, subject);
        return [];
      }
      const path = joinPath(joinPath("spec.ports", index), "nodePort");
      return [
        errorAt(
          subject,
          path,
          `${nodePort} belongs to ${holder.object} (${placeText(holder)}), which is older or comes first by name`,
        ),
      ];
    });
  });
}
