import { joinPath } from "../../base/schema-error.ts";
import { alternatives, listTextOf, quoted } from "../../base/text.ts";
import {
  MAX_CONNECTIONS_ANNOTATION,
  NEW_CONNECTIONS_ANNOTATION,
  parseMaxConnections,
  parseNewConnections,
} from "../../model/client-limits.ts";
import {
  DRAIN_TIMEOUT_ANNOTATION,
  ON_REMOVED_ANNOTATION,
  parseDrainTimeout,
  parseOnRemoved,
} from "../../model/connection-life.ts";
import {
  CONNECTION_TIMEOUTS_ANNOTATION,
  parseConnectionTimeouts,
  TIMED_STATES,
  TIMEOUT_NAMES,
  type TimeoutName,
} from "../../model/connection-timeouts.ts";
import {
  type EnabledFeatures,
  offReason,
  PORT_RANGES_ANNOTATION,
  type ServiceAnnotation,
} from "../../model/features.ts";
import { PASSIVE_HEALTH_ANNOTATION, parsePassiveHealthCheck } from "../../model/passive-health.ts";
import { parseScheduler, SCHEDULER_ANNOTATION, SCHEDULERS } from "../../model/scheduler.ts";
import type { IgnoredAnnotation, Service, ServicePortSpec } from "../../model/service.ts";
import { type FieldDiagnostic, fieldWarning } from "./decode.ts";
import { portsWithRanges } from "./port-ranges.ts";
import type { RawService } from "./raw-service.ts";

/** The fields of a Service that its annotations determine. */
export type AnnotatedFields = Pick<
  Service,
  | "ports"
  | "scheduler"
  | "passiveHealthCheck"
  | "clientLimits"
  | "onEndpointRemoved"
  | "drainTimeoutMs"
  | "connectionTimeouts"
  | "ignoredAnnotations"
>;

/** Fields, or the reason why an annotation is invalid: the predicate of a sentence. */
type Parsed<Fields> = Fields | { readonly reason: string };

type Warn = (reason: string) => void;

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
  const ignoredAnnotations: IgnoredAnnotation[] = [];
  const read = <Fields extends object>(
    annotation: ServiceAnnotation,
    parse: (text: string, warn: Warn) => Parsed<Fields>,
    consequence = "it is ignored",
    otherwise?: Fields,
  ): Fields | undefined => {
    const text = annotations?.[annotation];
    if (text === undefined || text === null) return undefined;
    const path = joinPath("metadata.annotations", annotation);
    const off = offReason(features, annotation, namespace ?? "default");
    if (off !== undefined) {
      diagnostics.push(fieldWarning("feature-off", path, off));
      ignoredAnnotations.push({ annotation, cause: "off", reason: off, consequence: "it is ignored" });
      return undefined;
    }
    const warn = (reason: string) => diagnostics.push(fieldWarning("invalid-annotation", path, reason));
    const parsed = parse(text, warn);
    if (!("reason" in parsed)) return parsed;
    const { reason } = parsed;
    warn(`${reason}; ${consequence}`);
    ignoredAnnotations.push({ annotation, cause: "invalid", reason, consequence });
    return otherwise;
  };
  const ranged = read(
    PORT_RANGES_ANNOTATION,
    (text) => portsWithRanges(text, ports, invalidPorts),
    "no range is served",
  );
  const clientLimits = {
    ...read(MAX_CONNECTIONS_ANNOTATION, parseMaxConnections),
    ...read(NEW_CONNECTIONS_ANNOTATION, parseNewConnections),
  };
  return {
    ports: ranged?.ports ?? ports,
    // Regardless of the proxy's default.
    ...read(SCHEDULER_ANNOTATION, schedulerOf, "random is used", { scheduler: "random" }),
    ...read(PASSIVE_HEALTH_ANNOTATION, (text, warn) => passiveHealthCheckOf(text, ports, warn)),
    ...(Object.keys(clientLimits).length > 0 && { clientLimits }),
    ...read(ON_REMOVED_ANNOTATION, parseOnRemoved),
    ...read(DRAIN_TIMEOUT_ANNOTATION, parseDrainTimeout),
    ...read(CONNECTION_TIMEOUTS_ANNOTATION, (text, warn) => connectionTimeoutsOf(text, ports, warn)),
    ...(ignoredAnnotations.length > 0 && { ignoredAnnotations }),
  };
}

function schedulerOf(text: string): Parsed<Pick<Service, "scheduler">> {
  const scheduler = parseScheduler(text);
  if (scheduler !== undefined) return { scheduler };
  return { reason: `must be ${alternatives(SCHEDULERS)}, not ${quoted(text)}` };
}

/** The annotation has no effect on a Service without a TCP port. */
function passiveHealthCheckOf(
  text: string,
  ports: readonly ServicePortSpec[],
  warn: Warn,
): Parsed<Pick<Service, "passiveHealthCheck">> {
  const parsed = parsePassiveHealthCheck(text);
  if ("reason" in parsed) return parsed;
  const others = ports.filter(({ protocol }) => protocol !== "tcp");
  if (parsed.setting !== "off" && others.length > 0) {
    if (others.length === ports.length)
      return { reason: "is for TCP, and no port of the Service has this protocol" };
    const names = listTextOf(others, ({ name, port, protocol }) => `${name || port} (${protocol})`);
    warn(`is for TCP: does not watch ${names}`);
  }
  return { passiveHealthCheck: parsed.setting };
}

/** The annotation has no effect without a value for the protocol of a port. */
function connectionTimeoutsOf(
  text: string,
  ports: readonly ServicePortSpec[],
  warn: Warn,
): Parsed<Pick<Service, "connectionTimeouts">> {
  const parsed = parseConnectionTimeouts(text);
  if ("reason" in parsed) return parsed;
  const { timeouts } = parsed;
  const names = TIMEOUT_NAMES.filter((name) => timeouts[name] !== undefined);
  const isUsed = (name: TimeoutName) =>
    ports.some(({ protocol }) => protocol === TIMED_STATES[name].protocol);
  const unused = names.filter((name) => !isUsed(name));
  if (unused.length === names.length && ports.length > 0)
    return { reason: `has no value for a port of the Service: ${names.join(", ")} are for other protocols` };
  if (unused.length > 0) warn(`has values that no port of the Service uses: ${unused.join(", ")}`);
  const sctp = ports.filter(({ protocol }) => protocol === "sctp");
  if (sctp.length > 0) {
    const named = listTextOf(sctp, ({ name, port }) => name || `${port}`);
    warn(`has no effect on SCTP, the protocol of ${named}: nft cannot set its timeouts`);
  }
  return { connectionTimeouts: timeouts };
}
