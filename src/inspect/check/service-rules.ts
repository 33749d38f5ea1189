import { joinPath } from "../../base/schema-error.ts";
import { protocolOf } from "../../kube/decode/decode.ts";
import type { RawService } from "../../kube/decode/raw-service.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { writtenBy } from "../../kube/files/object-gatherer.ts";
import { errorAt, placeText, type Subject } from "./diagnostics.ts";

/** The default of kube-apiserver's `--service-node-port-range`. */
const NODE_PORTS = [30_000, 32_767] as const;

/**
 * Returns an error for each rule of the API server that a Service breaks and that does not matter to the rules of nft-proxy,
 * so that the decoder accepts it. Source: ValidateService,
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go
 */
export function serviceRuleErrors(subject: Subject): Diagnostic[] {
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
      errors.push(errorAt(subject, nodePortPath, `${nodePort} is not in the node port range ${lowest}-${highest}`));
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
    errors.push(errorAt(subject, "spec.sessionAffinityConfig", "must not be set without sessionAffinity ClientIP"));
  }
  return errors;
}

/**
 * Returns an error for each node port that another Service has with the same protocol.
 * @param subjects in the order of precedence: the first one keeps the node port
 */
export function duplicateNodePortErrors(subjects: readonly Subject[]): Diagnostic[] {
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
