import { joinPath } from "../../base/schema-error.ts";
import {
  CONNECTION_TIMEOUTS_ANNOTATION,
  parseConnectionTimeouts,
  TIMED_STATES,
  TIMEOUT_NAMES,
} from "../../model/connection-timeouts.ts";
import type { Service, ServicePortSpec } from "../../model/service.ts";
import { type FieldDiagnostic, fieldWarning } from "./decode.ts";
import type { RawService } from "./raw-service.ts";

/**
 * Decodes the annotation of connection timeouts. With any mistake it is ignored as a whole, and also if it
 * has no value for the protocol of any port.
 * @param diagnostics takes a warning about that, and about values and ports that do not concern each other
 */
export function connectionTimeoutsOf(
  { annotations }: RawService["metadata"],
  ports: readonly ServicePortSpec[],
  diagnostics: FieldDiagnostic[],
): Pick<Service, "connectionTimeouts" | "invalidConnectionTimeouts"> {
  const text = annotations?.[CONNECTION_TIMEOUTS_ANNOTATION];
  if (text === undefined || text === null) return {};
  const path = joinPath("metadata.annotations", CONNECTION_TIMEOUTS_ANNOTATION);
  const warn = (reason: string) => diagnostics.push(fieldWarning("invalid-annotation", path, reason));
  const invalid = (reason: string) => {
    warn(`${reason}; it is ignored`);
    return { invalidConnectionTimeouts: reason };
  };
  const parsed = parseConnectionTimeouts(text);
  if ("reason" in parsed) return invalid(parsed.reason);
  const { timeouts } = parsed;
  const names = TIMEOUT_NAMES.filter((name) => timeouts[name] !== undefined);
  const isOf = (name: (typeof names)[number], { protocol }: ServicePortSpec) =>
    TIMED_STATES[name].protocol === protocol;
  const unused = names.filter((name) => !ports.some((port) => isOf(name, port)));
  if (unused.length === names.length && ports.length > 0) {
    return invalid(`has no value for a port of the Service: ${names.join(", ")} are for other protocols`);
  }
  if (unused.length > 0) warn(`has values that no port of the Service uses: ${unused.join(", ")}`);
  const sctp = ports.filter(({ protocol }) => protocol === "sctp");
  if (sctp.length > 0) {
    const named = sctp.map(({ name, port }) => name || port).join(", ");
    warn(`has no effect on SCTP, the protocol of ${named}: nft cannot set its timeouts`);
  }
  return { connectionTimeouts: timeouts };
}
