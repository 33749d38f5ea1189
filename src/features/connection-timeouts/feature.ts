import { listTextOf } from "../../base/text.ts";
import {
  CONNECTION_TIMEOUTS_ANNOTATION,
  parseConnectionTimeouts,
  TIMED_STATES,
  TIMEOUT_NAMES,
  type TimeoutName,
} from "../../model/connection-timeouts.ts";
import type { AnnotatedService, Feature, Parsed } from "../seam/feature.ts";

export const connectionTimeouts: Feature = {
  name: "connection-timeouts",
  annotations: [{ name: CONNECTION_TIMEOUTS_ANNOTATION, event: "InvalidConnectionTimeouts", parse }],
};

/** The annotation has no effect without a value for the protocol of a port. */
function parse(text: string, { ports, warn }: AnnotatedService): Parsed {
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
  return { fields: { connectionTimeouts: timeouts } };
}
