import { joinPath } from "../../base/schema-error.ts";
import { PASSIVE_HEALTH_ANNOTATION, parsePassiveHealthCheck } from "../../model/passive-health.ts";
import type { Service, ServicePortSpec } from "../../model/service.ts";
import { type FieldDiagnostic, fieldWarning } from "./decode.ts";
import type { RawService } from "./raw-service.ts";

/**
 * Decodes the annotation of passive health checks. An invalid one is ignored, as is one of a Service without
 * a TCP port.
 * @param diagnostics takes a warning about these, and about ports of other protocols
 */
export function passiveHealthCheckOf(
  { annotations }: RawService["metadata"],
  ports: readonly ServicePortSpec[],
  diagnostics: FieldDiagnostic[],
): Pick<Service, "passiveHealthCheck" | "invalidPassiveHealthCheck"> {
  const text = annotations?.[PASSIVE_HEALTH_ANNOTATION];
  if (text === undefined || text === null) return {};
  const path = joinPath("metadata.annotations", PASSIVE_HEALTH_ANNOTATION);
  const parsed = parsePassiveHealthCheck(text);
  if ("reason" in parsed) {
    diagnostics.push(fieldWarning("invalid-annotation", path, `${parsed.reason}; it is ignored`));
    return { invalidPassiveHealthCheck: parsed.reason };
  }
  const { setting } = parsed;
  const others = ports.filter(({ protocol }) => protocol !== "tcp");
  if (setting === "off" || others.length === 0) return { passiveHealthCheck: setting };
  if (others.length === ports.length) {
    const reason = "is for TCP, and no port of the Service has this protocol";
    diagnostics.push(fieldWarning("invalid-annotation", path, `${reason}; it is ignored`));
    return { invalidPassiveHealthCheck: reason };
  }
  const names = others.map(({ name, port, protocol }) => `${name || port} (${protocol})`).join(", ");
  diagnostics.push(fieldWarning("invalid-annotation", path, `is for TCP: does not watch ${names}`));
  return { passiveHealthCheck: setting };
}
