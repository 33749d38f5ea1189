import type { Family } from "../base/family.ts";
import { type AttributeView, type Endianness, MalformedMessage, padded } from "./attributes.ts";
import { decodedParts } from "./element-bytes.ts";

/** An end of a flow. */
export interface FlowEnd {
  readonly address: string;
  readonly port: number;
}

/** A UDP flow or a TCP connection in the kernel's conntrack table. */
export interface Flow {
  readonly protocol: "tcp" | "udp";
  readonly client: FlowEnd;
  /** The address that the client sent to. */
  readonly destination: FlowEnd;
  /** The server that answers: the destination, unless it was translated. */
  readonly replySource: FlowEnd;
  /**
   * The kernel's number of the entry. A flow that was deleted and created again nearly always has another
   * number.
   */
  readonly id: number;
  /** The conntrack zone; undefined for the default one. */
  readonly zone: number | undefined;
}

/** A flow and its state. */
export interface ListedFlow {
  readonly flow: Flow;
  /** Whether it is a TCP connection whose SYN is unanswered. */
  readonly isUnanswered: boolean;
}

export const FLOW_PROTOCOLS = { tcp: 6, udp: 17 } as const;

// Numbers of linux/netfilter/nfnetlink_conntrack.h. Others are ignored: newer kernels have more.
const ORIGINAL = 1;
const REPLY = 2;
const STATE = 4;
const ID = 12;
const ZONE = 18;

const TUPLE_ADDRESSES = 1;
const TUPLE_PROTOCOL = 2;
const SOURCES: ReadonlySet<number> = new Set([1, 3]);
const PROTOCOL_NUMBER = 1;
const SOURCE_PORT = 2;
const DESTINATION_PORT = 3;
const STATE_TCP = 1;
const TCP_STATE = 1;
const SYN_SENT = 1;

interface Tuple {
  protocol: number;
  source: string;
  destination: string;
  sourcePort: number;
  destinationPort: number;
}

/**
 * Reads an entry of the conntrack table between two offsets. @returns undefined for other protocols
 * @throws MalformedMessage
 */
export function readFlow(
  view: AttributeView,
  from: number,
  limit: number,
  family: Family,
  endianness: Endianness,
): ListedFlow | undefined {
  let original: Tuple | undefined;
  let reply: Tuple | undefined;
  let id = 0;
  let zone: number | undefined;
  let isUnanswered = false;
  eachAttribute(view, from, limit, (type, at, end) => {
    if (type === ORIGINAL) original = readTuple(view, at, end, family, endianness);
    else if (type === REPLY) reply = readTuple(view, at, end, family, endianness);
    else if (type === ID) id = view.number32(at, end);
    else if (type === ZONE) zone = view.number16(at, end);
    else if (type === STATE) isUnanswered = isSynSent(view, at, end);
  });
  if (original === undefined || reply === undefined) throw new MalformedMessage("flow without addresses");
  const protocol = original.protocol === FLOW_PROTOCOLS.tcp ? "tcp" : "udp";
  if (original.protocol !== FLOW_PROTOCOLS[protocol]) return undefined;
  const flow = {
    protocol,
    client: { address: original.source, port: original.sourcePort },
    destination: { address: original.destination, port: original.destinationPort },
    replySource: { address: reply.source, port: reply.sourcePort },
    id,
    zone,
  } as const;
  return { flow, isUnanswered };
}

function readTuple(
  view: AttributeView,
  from: number,
  limit: number,
  family: Family,
  endianness: Endianness,
): Tuple {
  const tuple = { protocol: 0, source: "", destination: "", sourcePort: 0, destinationPort: 0 };
  const types = [family === "ip" ? "ipv4_addr" : "ipv6_addr"] as const;
  eachAttribute(view, view.content(from), limit, (part, start, until) => {
    eachAttribute(view, view.content(start), until, (type, at, end) => {
      if (part === TUPLE_ADDRESSES) {
        const text = decodedParts(types, view.latin1(at, end), endianness);
        if (text === undefined) throw new MalformedMessage("address of another family");
        tuple[SOURCES.has(type) ? "source" : "destination"] = text;
      } else if (part === TUPLE_PROTOCOL) {
        if (type === PROTOCOL_NUMBER) tuple.protocol = view.number8(at, end);
        else if (type === SOURCE_PORT) tuple.sourcePort = view.number16(at, end);
        else if (type === DESTINATION_PORT) tuple.destinationPort = view.number16(at, end);
      }
    });
  });
  return tuple;
}

function isSynSent(view: AttributeView, from: number, limit: number): boolean {
  let isFound = false;
  eachAttribute(view, view.content(from), limit, (protocol, start, until) => {
    if (protocol !== STATE_TCP) return;
    eachAttribute(view, view.content(start), until, (type, at, end) => {
      if (type === TCP_STATE) isFound = view.number8(at, end) === SYN_SENT;
    });
  });
  return isFound;
}

function eachAttribute(
  view: AttributeView,
  from: number,
  limit: number,
  read: (type: number, at: number, end: number) => void,
): void {
  for (let at = from; at < limit; ) {
    const end = view.end(at, limit);
    read(view.type(at), at, end);
    at += padded(end - at);
  }
}
