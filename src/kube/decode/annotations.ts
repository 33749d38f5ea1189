import { joinPath } from "../../base/schema-error.ts";
import { FEATURES } from "../../features/registry.ts";
import type { ServiceAnnotation } from "../../features/seam/feature.ts";
import { type EnabledFeatures, offReason } from "../../model/features.ts";
import {
  FEATURE_NOT_ENABLED,
  type IgnoredAnnotation,
  type Service,
  type ServicePortSpec,
} from "../../model/service.ts";
import { type FieldDiagnostic, fieldWarning } from "./decode.ts";
import type { RawService } from "./raw-service.ts";

/** The fields of a Service that its annotations determine. */
export type AnnotatedFields = Partial<Service> & Pick<Service, "ports">;

const IGNORED = "it is ignored";

/**
 * Decodes the annotations of a Service. One that is invalid, or of a feature that is off in the Service's
 * namespace, is ignored as a whole.
 * @param invalidPorts the names of further ports, which are invalid; undefined if some of these names are
 * unknown
 * @param diagnostics receives a warning about each ignored annotation, and about parts without effect
 */
export function annotatedFields(
  { annotations, namespace }: RawService["metadata"],
  features: EnabledFeatures,
  ports: readonly ServicePortSpec[],
  invalidPorts: readonly string[] | undefined,
  diagnostics: FieldDiagnostic[],
): AnnotatedFields {
  let fields: AnnotatedFields = { ports };
  const ignored: IgnoredAnnotation[] = [];
  const read = (feature: string, annotation: ServiceAnnotation, text: string): void => {
    const { name, event, parse, consequence = IGNORED, otherwise } = annotation;
    const path = joinPath("metadata.annotations", name);
    const off = offReason(features, feature, namespace ?? "default");
    if (off !== undefined) {
      diagnostics.push(fieldWarning("feature-off", path, off));
      ignored.push({ annotation: name, event: FEATURE_NOT_ENABLED, reason: off, consequence: IGNORED });
      return;
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
  };
  for (const feature of annotations ? FEATURES : []) {
    for (const annotation of feature.annotations) {
      const text = annotations?.[annotation.name];
      if (text !== undefined && text !== null) read(feature.name, annotation, text);
    }
  }
  return ignored.length === 0 ? fields : { ...fields, ignoredAnnotations: ignored };
}
