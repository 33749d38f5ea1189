import type { Family } from "../base/family.ts";
import { AttributeView, type Endianness, MalformedMessage, padded } from "./attributes.ts";
import { type Flow, type FlowState, readFlow, readFlowState } from "./flow.ts";
import { type RawElement, readRawElements } from "./raw-element.ts";

/**
 * A message of the kernel: a notification of a change, or a part of the answer to a request. The port id is
 * that of the socket that committed or asked; for nft, usually its process id in its own pid namespace. The
 * family is undefined for tables of families that we do not use.
 */
export type NetlinkMessage =
  | {
      readonly kind: ChangedKind;
      readonly op: Operation;
      readonly portId: number;
      readonly family: Family | undefined;
      readonly table: string;
      /** The object's name; for a rule, that of its chain; for elements, that of their set. */
      readonly name: string;
      /** Only of the kind `elements`. */
      readonly elements: readonly RawElement[];
    }
  | {
      /**
       * The end of a commit with the committing process (the host's process id), or the answer to a request.
       */
      readonly kind: "generation";
      readonly portId: number;
      /** The number of the request; for a commit, one that its program chose. */
      readonly sequence: number;
      readonly generation: number;
      readonly pid: number;
      readonly program: string;
    }
  /** An entry of the conntrack table; undefined for protocols that we do not use. */
  | { readonly kind: "flow"; readonly change: FlowChange; readonly flow: Flow | undefined }
  /** A change of the host's network interfaces or their addresses. */
  | { readonly kind: "host" }
  /** The end of a dump. */
  | { readonly kind: "done" }
  /** The result of a request or dump: an error (2 is ENOENT), or 0 for success. */
  | { readonly kind: "error"; readonly errno: number }
  | { readonly kind: "other" }
  | { readonly kind: "malformed"; readonly reason: string };

/**
 * What happened to a flow: created, with its translation chosen; changed, or only listed; deleted.
 */
export type FlowChange = "created" | "changed" | "deleted";

type ChangedKind = "table" | "chain" | "rule" | "set" | "flowtable" | "object" | "elements";
type Operation = "new" | "delete";

/** Maximum size of a message in bytes. The kernel's are at most 32 KB. */
const LONGEST = 1 << 20;

/** Sizes of a message's header (struct nlmsghdr) and of netfilter's (struct nfgenmsg). Bytes. */
const HEADER = 16;
const NETFILTER_HEADER = 4;

// Types of messages (linux/netlink.h, linux/netfilter/nfnetlink.h).
const ERROR = 2;
const DONE = 3;
const NFTABLES = 10;
/** IPCTNL_MSG_CT_NEW and IPCTNL_MSG_CT_DELETE of NFNL_SUBSYS_CTNETLINK. */
const FLOW = 1 << 8;
const DELETED_FLOW = FLOW + 2;
/** NLM_F_CREATE */
const CREATED = 0x400;
/** RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR and RTM_DELADDR of linux/rtnetlink.h. */
const HOST_TYPES: ReadonlySet<number> = new Set([16, 17, 20, 21]);

const FAMILY_NUMBERS: Readonly<Record<number, Family>> = { 2: "ip", 10: "ip6" };

// The lower halves of messages' types (enum nf_tables_msg_types).
const GENERATION = 15;
/** New, deleted, and destroyed since Linux 6.3. */
const CHANGES: Readonly<Record<ChangedKind, readonly [number, number, number]>> = {
  table: [0, 2, 26],
  chain: [3, 5, 27],
  rule: [6, 8, 28],
  set: [9, 11, 29],
  elements: [12, 14, 30],
  object: [18, 20, 31],
  flowtable: [22, 24, 32],
};

type Change = readonly [kind: ChangedKind, op: Operation];

const CHANGES_BY_NUMBER: ReadonlyMap<number, Change> = new Map(
  Object.entries(CHANGES).flatMap(([kind, numbers]) =>
    numbers.map((number, index) => [number, [kind, index === 0 ? "new" : "delete"] as Change]),
  ),
);

// Attributes: the name of the table, the object's own name (of elements: their set's), and the elements.
export const TABLE = 1;
export const NAME = 2;
export const ELEMENTS_LIST = 3;
/** The attributes of own names that are not {@link NAME}. */
const OTHER_NAMES: Readonly<Partial<Record<ChangedKind, number>>> = { table: TABLE, chain: 3 };

const GENERATION_ID = 1;
const GENERATION_PID = 2;
const GENERATION_PROGRAM = 3;

/** Which messages need their contents. */
export interface WantedContents {
  /**
   * Whether messages of a commit with this port id need their elements; without them they have none. All if
   * absent.
   */
  readonly elements?: (portId: number) => boolean;
  /**
   * Whether a changed or deleted flow in this state matters; all do if absent. The others are read no
   * further, and become `other`: of the six changes of a TCP connection, one ends it.
   */
  readonly flows?: (change: FlowChange, state: FlowState) => boolean;
}

/**
 * Reads netlink messages from the bytes of a socket, in chunks of any size. Never fails, and keeps at most
 * one message. Reading stops at an impossible length, as the next message cannot be found.
 */
export class MessageReader {
  readonly #endianness: Endianness;
  readonly #wanted: WantedContents;
  /** The beginning of the last message, whose end has not arrived. */
  #incomplete = Buffer.alloc(0);
  /** Whether an impossible length ended the reading. */
  #isBroken = false;

  constructor(endianness: Endianness, wanted: WantedContents = {}) {
    this.#endianness = endianness;
    this.#wanted = wanted;
  }

  /** Returns the messages that these bytes complete, in order. */
  read(chunk: Uint8Array): NetlinkMessage[] {
    const messages: NetlinkMessage[] = [];
    if (this.#isBroken) return messages;
    const bytes = Buffer.concat([this.#incomplete, chunk]);
    const view = new AttributeView(bytes, this.#endianness);
    let at = 0;
    while (bytes.length - at >= 4) {
      const length = view.host32(at);
      if (length < HEADER || length > LONGEST) {
        messages.push({ kind: "malformed", reason: `message of ${length} bytes` });
        this.#isBroken = true;
        break;
      }
      if (at + padded(length) > bytes.length) break;
      messages.push(readMessage(view, at, at + length, this.#wanted));
      at += padded(length);
    }
    this.#incomplete = bytes.subarray(at);
    return messages;
  }
}

function readMessage(view: AttributeView, at: number, end: number, wanted: WantedContents): NetlinkMessage {
  try {
    const type = view.host16(at + 4);
    if (type === ERROR || type === DONE) return readEnd(view, at, end, type);
    if (HOST_TYPES.has(type)) return { kind: "host" };
    const isFlow = type === FLOW || type === DELETED_FLOW;
    if (!isFlow && type >> 8 !== NFTABLES) return OTHER;
    if (end - at < HEADER + NETFILTER_HEADER) throw new MalformedMessage("header cut off");
    const from = at + HEADER + NETFILTER_HEADER;
    const family = FAMILY_NUMBERS[view.byte(at + HEADER)];
    if (isFlow) {
      const createdOrChanged = (view.host16(at + 6) & CREATED) === 0 ? "changed" : "created";
      const change = type === DELETED_FLOW ? "deleted" : createdOrChanged;
      const isRead = change === "created" || (wanted.flows?.(change, readFlowState(view, from, end)) ?? true);
      if (!isRead) return OTHER;
      return { kind: "flow", change, flow: family && readFlow(view, from, end, family) };
    }
    const portId = view.host32(at + 12);
    if ((type & 0xff) === GENERATION) {
      const sequence = view.host32(at + 8);
      return { kind: "generation", portId, sequence, ...readGeneration(view, from, end) };
    }
    const [kind, op] = CHANGES_BY_NUMBER.get(type & 0xff) ?? [];
    if (kind === undefined || op === undefined) return OTHER;
    const areElementsRead = kind === "elements" && (wanted.elements?.(portId) ?? true);
    return { kind, op, portId, family, ...readChange(view, from, end, kind, areElementsRead) };
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error;
    return { kind: "malformed", reason: error.message };
  }
}

const OTHER: NetlinkMessage = { kind: "other" };
const NO_ELEMENTS: readonly RawElement[] = [];

/** An error is a negative number. Before Linux 5.19, the errors of a dump are only in its DONE message. */
function readEnd(view: AttributeView, at: number, end: number, type: number): NetlinkMessage {
  const hasNumber = end - at >= HEADER + 4;
  if (type === ERROR && !hasNumber) throw new MalformedMessage("error cut off");
  const errno = hasNumber ? Math.abs(view.host32(at + HEADER) | 0) : 0;
  return type === DONE && errno === 0 ? { kind: "done" } : { kind: "error", errno };
}

function readChange(
  view: AttributeView,
  from: number,
  limit: number,
  kind: ChangedKind,
  areElementsRead: boolean,
) {
  let table: string | undefined;
  let name: string | undefined;
  let elements = NO_ELEMENTS;
  const nameType = OTHER_NAMES[kind] ?? NAME;
  view.each(from, limit, (type, at, end) => {
    if (type === TABLE) table = view.text(at, end);
    // In messages about tables, both are the same attribute.
    if (type === nameType) name = view.text(at, end);
    else if (type === ELEMENTS_LIST && areElementsRead)
      elements = readRawElements(view, view.content(at), end);
  });
  if (table === undefined || name === undefined) throw new MalformedMessage(`${kind} without a name`);
  return { table, name, elements };
}

function readGeneration(view: AttributeView, from: number, limit: number) {
  let generation: number | undefined;
  let pid = 0;
  let program = "";
  view.each(from, limit, (type, at, end) => {
    if (type === GENERATION_ID) generation = view.number(at, end, 32);
    else if (type === GENERATION_PID) pid = view.number(at, end, 32);
    else if (type === GENERATION_PROGRAM) program = view.text(at, end);
  });
  if (generation === undefined) throw new MalformedMessage("generation without a number");
  return { generation, pid, program };
}
