import {
  DRAIN_TIMEOUT_ANNOTATION,
  ON_REMOVED_ANNOTATION,
  parseDrainTimeout,
  parseOnRemoved,
} from "../../model/connection-life.ts";
import type { Service } from "../../model/service.ts";
import type { FieldDiagnostic } from "./decode.ts";
import { type AnnotationParser, parsedAnnotations } from "./parsed-annotations.ts";
import type { RawService } from "./raw-service.ts";

type ConnectionLife = Pick<Service, "onEndpointRemoved" | "drainTimeoutMs">;

const PARSERS: readonly AnnotationParser<ConnectionLife>[] = [
  [ON_REMOVED_ANNOTATION, parseOnRemoved],
  [DRAIN_TIMEOUT_ANNOTATION, parseDrainTimeout],
];

/**
 * Decodes the annotations about connections to endpoints that leave. An invalid one is ignored.
 * @param diagnostics takes a warning about it
 */
export function connectionLifeOf(
  metadata: RawService["metadata"],
  diagnostics: FieldDiagnostic[],
): ConnectionLife & Pick<Service, "invalidConnectionLife"> {
  const { parts, ignored } = parsedAnnotations(metadata, PARSERS, diagnostics);
  return { ...parts, ...(ignored !== undefined && { invalidConnectionLife: ignored }) };
}
