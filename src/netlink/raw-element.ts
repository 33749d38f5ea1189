import type { ListedElement } from "../nft/elements.ts";
import { type AttributeView, MalformedMessage, padded } from "./attributes.ts";

/** An element of a set in the kernel's form. The packets are those of its first counter. */
export interface RawElement extends Pick<ListedElement, "timeoutMs" | "expiresMs" | "packets"> {
  /** The key's bytes, one character (latin1) for each; "" of a catch-all element. */
  readonly key: string;
  /** The last key of an interval of concatenated keys. */
  readonly keyEnd?: string | undefined;
  /** Whether this is an end element of a set of intervals: its key is the first one after an interval. */
  readonly isEnd: boolean;
  /** The data's bytes, as for the key; a verdict as our text (`goto balance-2`, `drop`); "" in a set. */
  readonly value: string;
}

// Numbers of linux/netfilter/nf_tables.h. Others are ignored: newer kernels have more.
export const ELEM_KEY = 1;
const ELEM_DATA = 2;
const ELEM_FLAGS = 3;
const ELEM_TIMEOUT = 4;
const ELEM_EXPIRATION = 5;
const ELEM_EXPR = 7;
const ELEM_KEY_END = 10;
const ELEM_EXPRESSIONS = 11;

const INTERVAL_END = 1;
const CATCH_ALL = 2;

export const DATA_VALUE = 1;
const DATA_VERDICT = 2;
const VERDICT_CODE = 1;
const VERDICT_CHAIN = 2;

const EXPR_NAME = 1;
const EXPR_DATA = 2;
const COUNTER_PACKETS = 2;

const JUMP = "jump";
const GOTO = "goto";
const VERDICTS: ReadonlyMap<number, string> = new Map([
  [0, "drop"],
  [1, "accept"],
  [-1, "continue"],
  [-2, "break"],
  [-3, JUMP],
  [-4, GOTO],
  [-5, "return"],
]);

/** Reads a list of elements between two offsets. @throws MalformedMessage */
export function readRawElements(view: AttributeView, from: number, limit: number): RawElement[] {
  const elements: RawElement[] = [];
  for (let at = from; at < limit; ) {
    const end = view.end(at, limit);
    elements.push(readElement(view, view.content(at), end));
    at += padded(end - at);
  }
  return elements;
}

function readElement(view: AttributeView, from: number, limit: number): RawElement {
  let key: string | undefined;
  let keyEnd: string | undefined;
  let value = "";
  let flags = 0;
  let timeoutMs: number | undefined;
  let expiresMs: number | undefined;
  let packets: number | undefined;
  for (let at = from; at < limit; ) {
    const end = view.end(at, limit);
    const type = view.type(at);
    const content = view.content(at);
    if (type === ELEM_KEY) key = readData(view, content, end);
    else if (type === ELEM_DATA) value = readData(view, content, end);
    else if (type === ELEM_FLAGS) flags = view.number(at, end, 32);
    else if (type === ELEM_TIMEOUT) timeoutMs = view.number(at, end, 64);
    else if (type === ELEM_EXPIRATION) expiresMs = view.number(at, end, 64);
    else if (type === ELEM_KEY_END) keyEnd = readData(view, content, end);
    else if (type === ELEM_EXPR) packets ??= readExpression(view, content, end);
    else if (type === ELEM_EXPRESSIONS) packets ??= firstCounter(view, content, end);
    at += padded(end - at);
  }
  if (key === undefined && (flags & CATCH_ALL) === 0) throw new MalformedMessage("element without a key");
  return {
    key: key ?? "",
    keyEnd,
    isEnd: (flags & INTERVAL_END) !== 0,
    value,
    timeoutMs,
    expiresMs,
    packets,
  };
}

function readData(view: AttributeView, from: number, limit: number): string {
  for (let at = from; at < limit; ) {
    const end = view.end(at, limit);
    const type = view.type(at);
    if (type === DATA_VALUE) return view.latin1(at, end);
    if (type === DATA_VERDICT) return readVerdict(view, view.content(at), end);
    at += padded(end - at);
  }
  throw new MalformedMessage("data without a value");
}

function readVerdict(view: AttributeView, from: number, limit: number): string {
  let code: number | undefined;
  let chain = "";
  for (let at = from; at < limit; ) {
    const end = view.end(at, limit);
    const type = view.type(at);
    if (type === VERDICT_CODE) code = view.number(at, end, 32) | 0;
    else if (type === VERDICT_CHAIN) chain = view.text(at, end);
    at += padded(end - at);
  }
  if (code === undefined) throw new MalformedMessage("verdict without a code");
  const verdict = VERDICTS.get(code) ?? `verdict ${code}`;
  return verdict === JUMP || verdict === GOTO ? `${verdict} ${chain}` : verdict;
}

/** The packets of the first counter in a list of expressions; undefined if there is none. */
function firstCounter(view: AttributeView, from: number, limit: number): number | undefined {
  for (let at = from; at < limit; ) {
    const end = view.end(at, limit);
    const packets = readExpression(view, view.content(at), end);
    if (packets !== undefined) return packets;
    at += padded(end - at);
  }
  return undefined;
}

function readExpression(view: AttributeView, from: number, limit: number): number | undefined {
  let isCounter = false;
  let packets: number | undefined;
  for (let at = from; at < limit; ) {
    const end = view.end(at, limit);
    const type = view.type(at);
    // The kernel writes the name first.
    if (type === EXPR_NAME) isCounter = view.text(at, end) === "counter";
    else if (type === EXPR_DATA && isCounter) packets = readCounter(view, view.content(at), end);
    at += padded(end - at);
  }
  return packets;
}

function readCounter(view: AttributeView, from: number, limit: number): number {
  let packets = 0;
  for (let at = from; at < limit; ) {
    const end = view.end(at, limit);
    if (view.type(at) === COUNTER_PACKETS) packets = view.number(at, end, 64);
    at += padded(end - at);
  }
  return packets;
}
