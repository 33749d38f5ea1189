import type { Family } from "../base/family.ts";
import { type AttributeView, MalformedMessage } from "./attributes.ts";
import { decodedAddress } from "./element-bytes.ts";

/** An end of a flow. */
export interface FlowEnd {
  readonly address: string;
  readonly port: number;
}

/** An entry of the kernel's conntrack table: a UDP flow, or a connection of TCP or SCTP. */
export interface Flow {
  readonly protocol: keyof typeof FLOW_PROTOCOLS;
  readonly client: FlowEnd;
  /** The address that the client sent to. */
  readonly destination: FlowEnd;
  /** The server that answers: the destination, unless it was translated. */
  readonly replySource: FlowEnd;
  /** The address that the server answers to: the client, unless it was translated. */
  readonly replyDestination: FlowEnd;
  /**
   * State in lower case (`established`, `time_wait`); for UDP `unreplied`, `replied` or `assured`;
   * `offloaded` while a flow table forwards the packets.
   */
  readonly state: string;
  /** Seconds until the kernel deletes the entry if no packet arrives; undefined while offloaded. */
  readonly remaining: number | undefined;
  /**
   * The kernel's number of the entry. A flow that was deleted and created again nearly always has another
   * number.
   */
  readonly id: number;
  /** The conntrack zone, perhaps only of the client's packets; undefined for the default one. */
  readonly zone: number | undefined;
  readonly mark: number;
  /** What the client sent and received; undefined unless nf_conntrack_acct is on. */
  readonly sent: FlowCounts | undefined;
  readonly received: FlowCounts | undefined;
  /** When it began, milliseconds since 1970; undefined unless nf_conntrack_timestamp is on. */
  readonly startedAt: number | undefined;
  /** When the kernel deleted it: only of deleted ones, as `startedAt`. */
  readonly stoppedAt: number | undefined;
  /** Whether the server has answered, and not only by a reset. */
  readonly isAnswered: boolean;
}

/** The traffic of a flow in one direction. */
export type FlowCounts = Readonly<ReturnType<typeof readCounts>>;

/** Whether the destination was translated. */
export function isTranslated({
  destination,
  replySource,
}: Pick<Flow, "destination" | "replySource">): boolean {
  return replySource.address !== destination.address || replySource.port !== destination.port;
}

/** The numbers of the protocols of flows. */
export const FLOW_PROTOCOLS = { tcp: 6, udp: 17, sctp: 132 } as const;

const PROTOCOLS_BY_NUMBER: ReadonlyMap<number, Flow["protocol"]> = new Map(
  Object.entries(FLOW_PROTOCOLS).map(([name, number]) => [number, name as Flow["protocol"]]),
);

// Numbers of linux/netfilter/nfnetlink_conntrack.h. Others are ignored: newer kernels have more.
export const FLOW_ORIGINAL = 1;
const REPLY = 2;
const STATUS = 3;
const STATE = 4;
export const FLOW_TIMEOUT = 7;
const MARK = 8;
const ORIGINAL_COUNTS = 9;
const REPLY_COUNTS = 10;
const ID = 12;
export const FLOW_ZONE = 18;
const TIMES = 20;

export const TUPLE_ADDRESSES = 1;
export const TUPLE_PROTOCOL = 2;
const TUPLE_ZONE = 3;
const SOURCES: ReadonlySet<number> = new Set([1, 3]);
export const PROTOCOL_NUMBER = 1;
export const SOURCE_PORT = 2;
export const DESTINATION_PORT = 3;
const COUNTED_PACKETS = 1;
const COUNTED_BYTES = 2;
const START = 1;
const STOP = 2;

// The states of a protocol by number (enum tcp_conntrack and sctp_conntrack of linux/netfilter).
const TCP_STATES =
  "none syn_sent syn_recv established fin_wait close_wait last_ack time_wait close syn_sent2".split(" ");
const SCTP_STATES = [
  "none closed cookie_wait cookie_echoed established",
  "shutdown_sent shutdown_recd shutdown_ack_sent heartbeat_sent heartbeat_acked",
].flatMap((names) => names.split(" "));
/** The states by the attribute of their protocol. */
const STATES: ReadonlyMap<number, readonly string[]> = new Map([
  [1, TCP_STATES],
  [3, SCTP_STATES],
]);
const STATE_NUMBER = 1;

// Bits of the status (enum ip_conntrack_status of linux/netfilter/nf_conntrack_common.h).
const SEEN_REPLY = 1 << 1;
const ASSURED = 1 << 2;
const OFFLOADED = (1 << 14) | (1 << 15);

type Tuple = ReturnType<typeof readTuple>;

/**
 * Reads an entry of the conntrack table between two offsets. @returns undefined for other protocols
 * @throws MalformedMessage
 */
export function readFlow(view: AttributeView, from: number, limit: number, family: Family): Flow | undefined {
  let original: Tuple | undefined;
  let reply: Tuple | undefined;
  let status = 0;
  let state: string | undefined;
  let [remaining, zone, startedAt, stoppedAt]: (number | undefined)[] = [];
  let [id, mark] = [0, 0];
  let [sent, received]: (FlowCounts | undefined)[] = [];
  view.each(from, limit, (type, at, end) => {
    if (type === FLOW_ORIGINAL) original = readTuple(view, at, end, family);
    else if (type === REPLY) reply = readTuple(view, at, end, family);
    else if (type === STATUS) status = view.number(at, end, 32);
    else if (type === STATE) state = readState(view, at, end);
    else if (type === FLOW_TIMEOUT) remaining = view.number(at, end, 32);
    else if (type === MARK) mark = view.number(at, end, 32);
    else if (type === ORIGINAL_COUNTS) sent = readCounts(view, at, end);
    else if (type === REPLY_COUNTS) received = readCounts(view, at, end);
    else if (type === ID) id = view.number(at, end, 32);
    else if (type === FLOW_ZONE) zone = view.number(at, end, 16);
    else if (type === TIMES) [startedAt, stoppedAt] = readTimes(view, at, end);
  });
  if (original === undefined || reply === undefined) throw new MalformedMessage("flow without addresses");
  const protocol = PROTOCOLS_BY_NUMBER.get(original.protocol);
  if (protocol === undefined) return undefined;
  return {
    protocol,
    client: original.source,
    destination: original.destination,
    replySource: reply.source,
    replyDestination: reply.destination,
    state: state ?? stateOf(status),
    remaining,
    id,
    zone: zone ?? original.zone,
    mark,
    sent,
    received,
    startedAt,
    stoppedAt,
    isAnswered: (status & SEEN_REPLY) !== 0,
  };
}

/** The state of a flow: see {@link Flow}. */
export type FlowState = Pick<Flow, "state" | "isAnswered">;

/** Reads only the state of a flow, in a tenth of the time. @throws MalformedMessage */
export function readFlowState(view: AttributeView, from: number, limit: number): FlowState {
  let status = 0;
  let state: string | undefined;
  view.each(from, limit, (type, at, end) => {
    if (type === STATUS) status = view.number(at, end, 32);
    else if (type === STATE) state = readState(view, at, end);
  });
  return { state: state ?? stateOf(status), isAnswered: (status & SEEN_REPLY) !== 0 };
}

function stateOf(status: number): string {
  if ((status & OFFLOADED) !== 0) return "offloaded";
  if ((status & ASSURED) !== 0) return "assured";
  return (status & SEEN_REPLY) === 0 ? "unreplied" : "replied";
}

function readTuple(view: AttributeView, from: number, limit: number, family: Family) {
  const tuple = {
    protocol: 0,
    /** The conntrack zone if it holds for this direction alone. */
    zone: undefined as number | undefined,
    source: { address: "", port: 0 },
    destination: { address: "", port: 0 },
  };
  view.each(view.content(from), limit, (part, start, until) => {
    if (part === TUPLE_ZONE) tuple.zone = view.number(start, until, 16);
    // Other parts need not have parts of their own.
    if (part !== TUPLE_ADDRESSES && part !== TUPLE_PROTOCOL) return;
    view.each(view.content(start), until, (type, at, end) => {
      if (part === TUPLE_ADDRESSES) {
        const text = decodedAddress(family, view.latin1(at, end));
        if (text === undefined) throw new MalformedMessage("address of another family");
        tuple[SOURCES.has(type) ? "source" : "destination"].address = text;
      } else if (type === PROTOCOL_NUMBER) tuple.protocol = view.number(at, end, 8);
      else if (type === SOURCE_PORT) tuple.source.port = view.number(at, end, 16);
      else if (type === DESTINATION_PORT) tuple.destination.port = view.number(at, end, 16);
    });
  });
  return tuple;
}

function readState(view: AttributeView, from: number, limit: number): string | undefined {
  let state: string | undefined;
  view.each(view.content(from), limit, (protocol, start, until) => {
    const names = STATES.get(protocol);
    if (names === undefined) return;
    view.each(view.content(start), until, (type, at, end) => {
      if (type === STATE_NUMBER) state = names[view.number(at, end, 8)];
    });
  });
  return state;
}

function readCounts(view: AttributeView, from: number, limit: number) {
  const counts = { packets: 0, bytes: 0 };
  view.each(view.content(from), limit, (type, at, end) => {
    if (type === COUNTED_PACKETS) counts.packets = view.number(at, end, 64);
    else if (type === COUNTED_BYTES) counts.bytes = view.number(at, end, 64);
  });
  return counts;
}

function readTimes(view: AttributeView, from: number, limit: number): (number | undefined)[] {
  let [startedAt, stoppedAt]: (number | undefined)[] = [];
  view.each(view.content(from), limit, (type, at, end) => {
    if (type === START) startedAt = view.number(at, end, 64) / 1e6;
    else if (type === STOP) stoppedAt = view.number(at, end, 64) / 1e6;
  });
  return [startedAt, stoppedAt];
}
