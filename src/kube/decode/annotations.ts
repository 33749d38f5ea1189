import { joinPath } from "../../base/schema-error.ts";
import { FEATURES } from "../../features/registry.ts";
import type { NamedAnnotation, ServiceAnnotation, SliceAnnotation } from "../../features/seam/feature.ts";
import { type EnabledFeatures, offReason } from "../../model/features.ts";
import {
  FEATURE_NOT_ENABLED,
  type IgnoredAnnotation,
  type Service,
  type ServicePortSpec,
} from "../../model/service.ts";
import { type FieldDiagnostic, fieldWarning, type RawMetadata } from "./decode.ts";

/** The fields of a Service that its annotations determine. */
export type AnnotatedFields = Partial<Service> & Pick<Service, "ports">;

/** An annotation, and the name of its feature. */
interface Owned<Annotation> {
  readonly feature: string;
  readonly annotation: Annotation;
}

/** An annotation that an object has. */
interface Given<Annotation> extends Owned<Annotation> {
  readonly text: string;
  readonly path: string;
  /** Why it has no effect, the predicate of a sentence; undefined if its feature is enabled. */
  readonly off: string | undefined;
}

/** All annotations of Services. */
export const SERVICE_ANNOTATIONS: readonly Owned<ServiceAnnotation>[] = FEATURES.flatMap(
  ({ name: feature, annotations = [] }) => annotations.map((annotation) => ({ feature, annotation })),
);

/** All annotations of EndpointSlices. */
export const SLICE_ANNOTATIONS: readonly Owned<SliceAnnotation>[] = FEATURES.flatMap(
  ({ name: feature, sliceAnnotations = [] }) =>
    sliceAnnotations.map((annotation) => ({ feature, annotation })),
);

/**
 * The annotations that an object has.
 * @param diagnostics receives a warning about each whose feature is off in the object's namespace
 */
export function* givenAnnotations<Annotation extends NamedAnnotation>(
  all: readonly Owned<Annotation>[],
  { annotations, namespace }: Pick<RawMetadata, "annotations" | "namespace">,
  features: EnabledFeatures,
  diagnostics: FieldDiagnostic[],
): Generator<Given<Annotation>> {
  if (!annotations) return;
  for (const { feature, annotation } of all) {
    const text = annotations[annotation.name];
    if (text === undefined || text === null) continue;
    const path = joinPath("metadata.annotations", annotation.name);
    const off = offReason(features, feature, namespace ?? "default");
    if (off !== undefined) diagnostics.push(fieldWarning("feature-off", path, off));
    yield { feature, annotation, text, path, off };
  }
}

const IGNORED = "it is ignored";

/**
 * Decodes the annotations of a Service. One that is invalid, or of a feature that is off in the Service's
 * namespace, is ignored as a whole.
 * @param invalidPorts the names of further ports, which are invalid; undefined if some of these names are
 * unknown
 * @param diagnostics receives a warning about each ignored annotation, and about parts without effect
 */
export function annotatedFields(
  metadata: RawMetadata,
  features: EnabledFeatures,
  ports: readonly ServicePortSpec[],
  invalidPorts: readonly string[] | undefined,
  diagnostics: FieldDiagnostic[],
): AnnotatedFields {
  let fields: AnnotatedFields = { ports };
  const ignored: IgnoredAnnotation[] = [];
  for (const given of givenAnnotations(SERVICE_ANNOTATIONS, metadata, features, diagnostics)) {
    const { feature, text, path, off } = given;
    const { name, event, parse, consequence = IGNORED, otherwise } = given.annotation;
    if (off !== undefined) {
      ignored.push({ annotation: name, event: FEATURE_NOT_ENABLED, reason: off, consequence: IGNORED });
      continue;
    }
    const warn = (reason: string) => diagnostics.push(fieldWarning("invalid-annotation", path, reason));
    const parsed = parse(text, { ports, invalidPorts, warn });
    if ("reason" in parsed) {
      const { reason } = parsed;
      warn(`${reason}; ${consequence}`);
      ignored.push({ annotation: name, event, reason, consequence });
      fields = { ...fields, ...otherwise };
    } else if ("fields" in parsed) fields = { ...fields, ...parsed.fields };
    else {
      const value = { ...(fields.features?.[feature] ?? {}), ...parsed.value };
      fields = { ...fields, features: { ...fields.features, [feature]: value } };
    }
  }
  return ignored.length === 0 ? fields : { ...fields, ignoredAnnotations: ignored };
}
