import { joinPath } from "../../base/schema-error.ts";
import {
  type ClientLimits,
  MAX_CONNECTIONS_ANNOTATION,
  NEW_CONNECTIONS_ANNOTATION,
  parseMaxConnections,
  parseNewConnections,
} from "../../model/client-limits.ts";
import type { Service } from "../../model/service.ts";
import { type FieldDiagnostic, fieldWarning } from "./decode.ts";
import type { RawService } from "./raw-service.ts";

const PARSERS = [
  [MAX_CONNECTIONS_ANNOTATION, parseMaxConnections],
  [NEW_CONNECTIONS_ANNOTATION, parseNewConnections],
] as const;

/**
 * Decodes the annotations that limit clients. An invalid one is ignored.
 * @param diagnostics takes a warning about it
 */
export function clientLimitsOf(
  { annotations }: RawService["metadata"],
  diagnostics: FieldDiagnostic[],
): Pick<Service, "clientLimits" | "invalidClientLimits"> {
  let limits: ClientLimits | undefined;
  const reasons: string[] = [];
  for (const [annotation, parse] of PARSERS) {
    const text = annotations?.[annotation];
    if (text === undefined || text === null) continue;
    const parsed = parse(text);
    if (!("reason" in parsed)) {
      limits = { ...limits, ...parsed };
      continue;
    }
    const path = joinPath("metadata.annotations", annotation);
    diagnostics.push(fieldWarning("invalid-annotation", path, `${parsed.reason}; it is ignored`));
    reasons.push(`${annotation} ${parsed.reason}`);
  }
  return {
    ...(limits !== undefined && { clientLimits: limits }),
    ...(reasons.length > 0 && { invalidClientLimits: reasons.join("; ") }),
  };
}
