import type { Clock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { FAMILIES } from "../base/family.ts";
import { familyOf } from "../model/ip.ts";
import type { Flow } from "../netlink/flow.ts";
import type { NetlinkMessage } from "../netlink/message.ts";
import type { FlowPlace } from "../netlink/requests.ts";
import { type NetlinkRequests, netlinkRequests, REQUESTS } from "./netlink-requests.ts";

export { type Flow, type FlowCounts, type FlowEnd, type FlowState, isTranslated } from "../netlink/flow.ts";
export type { FlowChange } from "../netlink/message.ts";
export type { FlowPlace } from "../netlink/requests.ts";

/** The kernel's conntrack table. */
export interface FlowTable {
  /**
   * Yields the flows of a protocol to some places; with undefined, those of TCP, UDP and SCTP to places
   * without ports.
   * @throws AppError HOST if the table cannot be listed
   */
  list(protocol: Flow["protocol"] | undefined, places: readonly FlowPlace[]): AsyncIterable<Flow>;
  /**
   * Reads flows again, any number of them. Those that have ended are missing.
   * @throws AppError HOST if the kernel refuses it
   */
  current(flows: readonly Flow[]): Promise<readonly Flow[]>;
  /**
   * Makes flows expire now, any number of them. One that has already ended is no error.
   * @throws AppError HOST if the kernel refuses it
   */
  expireFlows(flows: readonly Flow[]): Promise<void>;
}

/**
 * Returns the smallest place with all flows to an address, or, for one protocol, to an address and port.
 */
export function placeOfFlows(address: string, port?: number): FlowPlace {
  const family = familyOf(address);
  if (family === "ip") return { family, address };
  return port === undefined ? { family } : { family, port };
}

/** All flows. */
export const EVERYWHERE: readonly FlowPlace[] = FAMILIES.map((family) => ({ family }));

const ENOENT = 2;
const EPERM = 1;

/** Time after which unused sockets are closed: each is a socat of 5 MB. Milliseconds. */
const IDLE = 10_000;

/**
 * The flows that are asked about by one write to socat: it must read all of their requests at once, and the
 * kernel's default buffer must hold their answers.
 */
const FLOWS_AT_ONCE = 100;

/**
 * Returns the {@link FlowTable} of this network namespace, by netlink through socat. Listing also makes the
 * kernel delete expired flows. Offloaded ones need this, as none of their packets causes it.
 * @param socat path or name of the program
 */
export function conntrackTable(clock: Clock, socat?: string): FlowTable {
  // Flows are expired while others are being listed, or read again.
  const sockets = () => netlinkRequests(clock, socat, IDLE);
  const [listing, expiring, reading] = [sockets(), sockets(), sockets()];
  return {
    async *list(protocol, places) {
      for (const place of places) {
        for await (const messages of listing.ask(REQUESTS.flows(protocol, place))) {
          for (const message of messages) {
            if (message.kind === "error") throw refused(message.errno);
            if (message.kind === "malformed") throw new AppError("HOST", `cannot read: ${message.reason}`);
            if (message.kind === "flow" && message.flow !== undefined) yield message.flow;
          }
        }
      }
    },
    async current(flows) {
      const found: Flow[] = [];
      for await (const message of answers(reading, flows, "flow"))
        if (message.kind === "flow" && message.flow !== undefined) found.push(message.flow);
      return found;
    },
    async expireFlows(flows) {
      for await (const _ of answers(expiring, flows, "expiry"));
    },
  };
}

/** Sends a request about each flow. Yields the messages of the answers but errors about flows that ended. */
async function* answers(
  socket: NetlinkRequests,
  flows: readonly Flow[],
  kind: "flow" | "expiry",
): AsyncGenerator<NetlinkMessage, void, undefined> {
  // Unlike the errors of requests, the answer about the generation can only be the last one.
  const end = REQUESTS.generation();
  const isLast = ({ kind }: NetlinkMessage) => kind === "generation";
  for (let at = 0; at < flows.length; at += FLOWS_AT_ONCE) {
    const some = flows.slice(at, at + FLOWS_AT_ONCE);
    const requests = some.map((flow) => REQUESTS[kind](familyOf(flow.destination.address), flow));
    for await (const messages of socket.ask(Buffer.concat([...requests, end]), isLast)) {
      for (const message of messages) {
        if (message.kind !== "error") yield message;
        else if (message.errno !== ENOENT) throw refused(message.errno);
      }
    }
  }
}

function refused(errno: number): AppError {
  const hint = errno === EPERM ? "run as root or with CAP_NET_ADMIN" : undefined;
  return new AppError("HOST", `the kernel's conntrack table: error ${errno}`, { hint });
}
