import { nearest } from "../../base/nearest.ts";
import { joinPath } from "../../base/schema-error.ts";
import { FEATURES } from "../../features/registry.ts";
import type { AnnotatedObject, ObjectAnnotation, ServiceAnnotation } from "../../features/seam/feature.ts";
import { type EnabledFeatures, type FeatureValues, offReason } from "../../model/features.ts";
import { FEATURE_NOT_ENABLED, type IgnoredAnnotation, type Service } from "../../model/service.ts";
import { type FieldDiagnostic, fieldWarning, type RawMetadata } from "./decode.ts";
import type { DiagnosticCode } from "./diagnostic-code.ts";

/** The fields of an object that its annotations determine. */
export type AnnotatedFields = Pick<Service, "features" | "ignoredAnnotations">;

/** An annotation with the name of its feature. */
type Owned<Annotation> = Annotation & { readonly feature: string };

/** All annotations of Services. */
export const SERVICE_ANNOTATIONS: readonly Owned<ServiceAnnotation>[] = FEATURES.flatMap(
  ({ name: feature, annotations = [] }) => annotations.map((one) => ({ ...one, feature })),
);

/** All annotations of EndpointSlices. */
export const SLICE_ANNOTATIONS: readonly Owned<ObjectAnnotation>[] = FEATURES.flatMap(
  ({ name: feature, sliceAnnotations = [] }) => sliceAnnotations.map((one) => ({ ...one, feature })),
);

const IGNORED = "it is ignored";

const PREFIX = "nft-proxy.io/";

/** The reason of the Event about an annotation that does not exist. */
const UNKNOWN = "UnknownAnnotation";

/** Maximum number of unknown annotations of an object that are reported: it may have thousands. */
const MOST_UNKNOWN = 3;

const NO_PORTS: Pick<AnnotatedObject, "ports" | "invalidPorts"> = { ports: [], invalidPorts: [] };

/**
 * Decodes the annotations of an object. One that is invalid, or of a feature that is off in the object's
 * namespace, is ignored as a whole.
 * @param all the annotations that objects of this kind may have
 * @param diagnostics receives a warning about each ignored annotation, and about parts without effect
 * @param ports of a Service
 */
export function annotatedFields(
  all: readonly Owned<ObjectAnnotation & Partial<ServiceAnnotation>>[],
  { annotations, namespace }: Pick<RawMetadata, "annotations" | "namespace">,
  enabled: EnabledFeatures,
  diagnostics: FieldDiagnostic[],
  ports = NO_PORTS,
): AnnotatedFields {
  if (!annotations) return {};
  let features: FeatureValues | undefined;
  const ignoredAnnotations: IgnoredAnnotation[] = [];
  const warn = (code: DiagnosticCode, annotation: string, reason: string) =>
    diagnostics.push(fieldWarning(code, joinPath("metadata.annotations", annotation), reason));
  const ignore = (code: DiagnosticCode, ignored: IgnoredAnnotation, text = ignored.reason) => {
    warn(code, ignored.annotation, text);
    ignoredAnnotations.push(ignored);
  };
  for (const { feature, name: annotation, event = "", parse, consequence = IGNORED } of all) {
    const text = annotations[annotation];
    if (text === undefined || text === null) continue;
    const off = offReason(enabled, feature, namespace ?? "default");
    if (off !== undefined) {
      ignore("feature-off", { annotation, event: FEATURE_NOT_ENABLED, reason: off, consequence: IGNORED });
      continue;
    }
    const parsed = parse(text, {
      ...ports,
      warn: (reason) => warn("invalid-annotation", annotation, reason),
    });
    if ("reason" in parsed) {
      const { reason } = parsed;
      ignore("invalid-annotation", { annotation, event, reason, consequence }, `${reason}; ${consequence}`);
    } else features = { ...features, [feature]: { ...(features?.[feature] ?? {}), ...parsed.value } };
  }
  for (const { annotation, reason } of unknownAnnotations(all, annotations))
    ignore("unknown-annotation", { annotation, event: UNKNOWN, reason, consequence: IGNORED });
  return { ...(features && { features }), ...(ignoredAnnotations.length > 0 && { ignoredAnnotations }) };
}

/**
 * Finds the first annotations of an object that have nft-proxy's prefix, and that objects of its kind do not
 * have: mistyped ones, and those of another kind.
 * @param all as in {@link annotatedFields}
 * @returns each with the reason, the predicate of a sentence
 */
export function unknownAnnotations(
  all: readonly Owned<ObjectAnnotation>[],
  annotations: object,
): { readonly annotation: string; readonly reason: string }[] {
  const known = new Set(all.map(({ name }) => name));
  // A name of Kubernetes has at most 63 characters after its prefix.
  const unknown = Object.keys(annotations).filter(
    (name) => /^nft-proxy\.io\/[\w.-]{1,63}$/.test(name) && !known.has(name),
  );
  return unknown
    .sort()
    .slice(0, MOST_UNKNOWN)
    .map((annotation) => ({ annotation, reason: unknownReason(annotation, known) }));
}

function unknownReason(name: string, known: ReadonlySet<string>): string {
  const isThis = (one: ObjectAnnotation) => one.name === name;
  if (SERVICE_ANNOTATIONS.some(isThis)) return "has no effect: it is an annotation of Services";
  if (SLICE_ANNOTATIONS.some(isThis)) return "has no effect: it is an annotation of EndpointSlices";
  const near = nearest(
    name.slice(PREFIX.length),
    [...known].map((one) => one.slice(PREFIX.length)),
  );
  return `is not an annotation of nft-proxy${near === undefined ? "" : ` (did you mean ${near}?)`}`;
}
