import type { ValidateFunction } from "ajv";
import { didYouMean, withHint } from "../../base/nearest.ts";
import { joinPath } from "../../base/schema-error.ts";
import { SERVICE_ANNOTATIONS, SLICE_ANNOTATIONS, unknownAnnotations } from "../../kube/decode/annotations.ts";
import {
  type FieldDiagnostic,
  fieldError,
  fieldWarning,
  type LocatedText,
  located,
  protocolOf,
} from "../../kube/decode/decode.ts";
import { DIAGNOSTIC_CODES, type DiagnosticCode } from "../../kube/decode/diagnostic-code.ts";
import type { RawService, RawServiceSpec } from "../../kube/decode/raw-service.ts";
import { independent, shapeBy, shapeOf } from "../../kube/decode/shape.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import {
  type FilesResult,
  locate,
  placeText,
  type WrittenObject,
  writtenBy,
} from "../../kube/files/object-gatherer.ts";
import { canonicalAddress } from "../../model/ip.ts";
import { compareAge } from "../../model/service.ts";
import { compileEndpointSliceApi, compileServiceApi, compileServiceCIDRApi } from "./api.validator.ts";
import { type CheckedKind, ruleErrors } from "./api-rules.ts";
import { annotationsOf, EXCLUDING } from "./exclusions.ts";

/**
 * Returns the errors that the API server would report and that do not matter to a proxy, with unknown fields
 * (as with `kubectl --validate=strict`); and warnings about annotations that have no effect. Objects with
 * other errors are included. The files must be read thoroughly.
 */
export function apiServerErrors({ objects, ignored, invalid }: FilesResult): Diagnostic[] {
  const byAge = objects.services.toSorted((a, b) => compareAge(a.value, b.value));
  const { endpointSlices, serviceCIDRs } = objects;
  const all: readonly WrittenObject[] = [
    ...byAge,
    ...endpointSlices,
    ...serviceCIDRs,
    ...ignored,
    ...invalid,
  ];
  const ofKind = (kind: CheckedKind) => all.filter(({ of }) => of === kind);
  const services = ofKind("Service").flatMap(writtenService);
  return [
    ...CHECKED_KINDS.flatMap((kind) => ofKind(kind).flatMap((subject) => objectDiagnostics(kind, subject))),
    ...duplicateErrors(services, "duplicate-node-port", nodePortsOf),
    ...duplicateErrors(services, "duplicate-cluster-ip", clusterIPsOf),
  ];
}

/** A Service of the files, served or not, and its spec without values of a wrong type. */
type WrittenService = ReturnType<typeof writtenService>[number];

function writtenService(subject: WrittenObject) {
  const { part } = shapeOf("Service", writtenBy(subject));
  return part === undefined ? [] : [{ subject, spec: (part.value as RawService).spec }];
}

/** The API's schemas. */
const COMPILE: Readonly<Record<CheckedKind, () => ValidateFunction>> = {
  Service: compileServiceApi,
  EndpointSlice: compileEndpointSliceApi,
  ServiceCIDR: compileServiceCIDRApi,
};

const CHECKED_KINDS = Object.keys(COMPILE) as CheckedKind[];

function objectDiagnostics(kind: CheckedKind, subject: WrittenObject): Diagnostic[] {
  const found = [...objectErrors(kind, subject), ...annotationWarnings(kind, subject)];
  return found.map((one) => locate(subject, one));
}

/** Returns the errors that the API server would report about an object, and that its decoder does not. */
function objectErrors(kind: CheckedKind, subject: WrittenObject): readonly FieldDiagnostic[] {
  const written = writtenBy(subject);
  const decoded = shapeOf(kind, written);
  const { errors, part } = shapeBy(COMPILE[kind], written);
  const omitted = decoded.part?.omitted ?? [""];
  const isUnknown = ({ code }: FieldDiagnostic) => code === "unknown-field";
  const others = errors.filter((error) => !isUnknown(error));
  const found = [...errors.filter(isUnknown), ...independent(others, { omitted })];
  const usable =
    decoded.errors.length === 0 ? part : decoded.part && shapeBy(COMPILE[kind], decoded.part.value).part;
  if (usable === undefined) return found;
  const isIgnored = "reason" in subject;
  const all = { value: usable.value, omitted: [...omitted, ...usable.omitted] };
  return [...found, ...ruleErrors(kind, all, isIgnored)];
}

/** The annotations of nft-proxy, by the kind that has them. */
const ANNOTATIONS = { Service: SERVICE_ANNOTATIONS, EndpointSlice: SLICE_ANNOTATIONS, ServiceCIDR: [] };

function annotationWarnings(kind: CheckedKind, subject: WrittenObject): FieldDiagnostic[] {
  const annotations = annotationsOf(subject);
  // The decoder of an object that is used has reported those with nft-proxy's prefix.
  const isDecoded = "value" in subject;
  const found = [
    ...(isDecoded ? [] : unknownAnnotations(ANNOTATIONS[kind], annotations)),
    ...Object.keys(annotations).flatMap(unknownExclusion),
  ];
  return found.map(({ annotation, reason }) =>
    fieldWarning("unknown-annotation", joinPath("metadata.annotations", annotation), reason),
  );
}

function unknownExclusion(annotation: string): { readonly annotation: string; readonly reason: string }[] {
  if (!annotation.startsWith(EXCLUDING)) return [];
  const code = annotation.slice(EXCLUDING.length);
  if (DIAGNOSTIC_CODES.some((known) => known === code)) return [];
  return [{ annotation, reason: withHint("names no diagnostic", didYouMean(code, DIAGNOSTIC_CODES)) }];
}

/** A value that the API server gives to one Service only; `text` is the value in messages. */
interface Allocated extends LocatedText {
  readonly key: string;
}

function nodePortsOf({ ports }: RawServiceSpec): Allocated[] {
  return (ports ?? []).flatMap(({ protocol, nodePort }, index) => {
    const path = joinPath(joinPath("spec.ports", index), "nodePort");
    return nodePort ? [{ key: `${protocolOf(protocol)} ${nodePort}`, text: `${nodePort}`, path }] : [];
  });
}

function clusterIPsOf({ clusterIP, clusterIPs }: RawServiceSpec): Allocated[] {
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
  valuesOf: (spec: RawServiceSpec) => readonly Allocated[],
): Diagnostic[] {
  const holders = new Map<string, WrittenObject>();
  return services.flatMap(({ subject, spec }) =>
    valuesOf(spec).flatMap(({ key, text, path }) => {
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
