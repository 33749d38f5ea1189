import { listTextOf } from "../../base/text.ts";
import { flowtableOf } from "../../ruleset/node-context.ts";
import type { AnnotatedObject, Feature, Parsed } from "../seam/feature.ts";
import { rules } from "./rules.ts";
import {
  CONNECTION_TIMEOUTS_ANNOTATION,
  type ConnectionTimeouts,
  connectionTimeoutsOf,
  connectionTimeoutsText,
  FEATURE,
  nodeTimeouts,
  parseConnectionTimeouts,
  TIMED_STATES,
  TIMEOUT_NAMES,
  type TimeoutName,
  timeoutsOfProtocol,
} from "./timeouts.ts";

export const connectionTimeouts: Feature = {
  name: FEATURE,
  annotations: [
    {
      name: CONNECTION_TIMEOUTS_ANNOTATION,
      values: "such as `tcp-established=2h,udp-stream=5m`",
      absent: "the node's timeouts",
      cost: "one more lookup for a new connection; 64 different lists of a protocol in a family",
      event: "InvalidConnectionTimeouts",
      parse,
    },
  ],
  former: { path: "nftProxy.connectionTimeouts", flag: "connection-timeouts" },
  settingsOf: nodeTimeouts,
  ruleset: rules,
  kernelFault: {
    // docs/dev/decisions/connection-timeouts.md
    before: "7.1",
    means: "without a fix of April 2026 read freed memory when a Service's timeouts are deleted",
    action:
      "ask your distribution for the fix (nft_ct: use-after-free in timeout object destroy), or leave the feature out",
  },
  words: {
    note: ({ service, spec }, { context, hasEffect }) => {
      const own = timeoutsOfProtocol(connectionTimeoutsOf(service), spec.protocol);
      if (own === undefined || !hasEffect("timeouts")) return undefined;
      const later = flowtableOf(context)
        ? "; when it leaves the fast path, it has those of the node until its next packet"
        : "";
      return `conntrack forgets the connection after ${connectionTimeoutsText(own)} without a packet (annotation ${CONNECTION_TIMEOUTS_ANNOTATION})${later}`;
    },
    warnings: (service, context) => {
      if (connectionTimeoutsOf(service) === undefined || flowtableOf(context) === undefined) return [];
      const reason = "a connection that leaves the fast path has the node's timeouts until its next packet";
      return [{ annotation: CONNECTION_TIMEOUTS_ANNOTATION, code: "timeouts-on-fast-path", reason }];
    },
  },
};

/** The annotation has no effect without a value for the protocol of a port. */
function parse(text: string, { ports, warn }: AnnotatedObject): Parsed {
  const parsed = parseConnectionTimeouts(text);
  if ("reason" in parsed) return parsed;
  const timeouts: ConnectionTimeouts = parsed.values;
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
  return { value: timeouts };
}
