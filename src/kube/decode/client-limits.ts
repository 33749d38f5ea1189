import {
  type ClientLimits,
  MAX_CONNECTIONS_ANNOTATION,
  NEW_CONNECTIONS_ANNOTATION,
  parseMaxConnections,
  parseNewConnections,
} from "../../model/client-limits.ts";
import type { Service } from "../../model/service.ts";
import type { FieldDiagnostic } from "./decode.ts";
import { type AnnotationParser, parsedAnnotations } from "./parsed-annotations.ts";
import type { RawService } from "./raw-service.ts";

const PARSERS: readonly AnnotationParser<ClientLimits>[] = [
  [MAX_CONNECTIONS_ANNOTATION, parseMaxConnections],
  [NEW_CONNECTIONS_ANNOTATION, parseNewConnections],
];

/**
 * Decodes the annotations that limit clients. An invalid one is ignored.
 * @param diagnostics takes a warning about it
 */
export function clientLimitsOf(
  metadata: RawService["metadata"],
  diagnostics: FieldDiagnostic[],
): Pick<Service, "clientLimits" | "invalidClientLimits"> {
  const { parts, ignored } = parsedAnnotations(metadata, PARSERS, diagnostics);
  return {
    ...(Object.keys(parts).length > 0 && { clientLimits: parts }),
    ...(ignored !== undefined && { invalidClientLimits: ignored }),
  };
}
