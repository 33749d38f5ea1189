import type { ByFamily, Family } from "../../base/family.ts";
import type { Expression, Statement } from "./json.ts";

/** A field of the packet: `ip daddr`, `th dport`. */
export function payload(protocol: string, field: string): Expression {
  return { payload: { protocol, field } };
}

/** Bits of the packet from the start of its network header on. */
export function networkBits(offset: number, len: number): Expression {
  return { payload: { base: "nh", offset, len } };
}

/** A property of the packet: `meta mark`, `meta l4proto`. */
export function meta(key: string): Expression {
  return { meta: { key } };
}

/** A key or value of several parts: `ip daddr . meta l4proto . th dport`. */
export function concat(...parts: readonly Expression[]): Expression {
  return { concat: parts };
}

/** The value of a named map for a key. If there is none, the rule ends. */
export function lookup(key: Expression, map: string): Expression {
  return { map: { key, data: `@${map}` } };
}

/** Continues only with packets whose left side equals the right one, or is in it. */
export function matches(left: Expression, right: Expression): Statement {
  return { match: { op: "==", left, right } };
}

/** The opposite of {@link matches}. */
export function differs(left: Expression, right: Expression): Statement {
  return { match: { op: "!=", left, right } };
}

/** Continues only with packets whose left side is not less than the right one. */
export function atLeast(left: Expression, right: Expression): Statement {
  return { match: { op: ">=", left, right } };
}

/** Keeps some bits of a value and clears the others. */
export function masked(value: Expression, mask: Expression): Expression {
  return { "&": [value, mask] };
}

/** Keeps the bits of a mask and sets a bit. nft lists the bit in the mask, too (1.1.3 and 1.1.7). */
export function withBit(value: Expression, mask: number, bit: number): Expression {
  return { "|": [masked(value, mask + bit), bit] };
}

/** Continues only with packets whose left side, a set of bits, has this bit. */
export function hasBit(left: Expression, bit: string): Statement {
  return { match: { op: "in", left, right: bit } };
}

/** Matches TCP packets with a flag. The canonical form names flags only as the whole right side, as here. */
export function hasTcpFlag(flag: "ack" | "rst" | "syn"): Statement {
  return hasBit(payload("tcp", "flags"), flag);
}

/** Matches packets that start no connection: of known connections, or of none. */
export const CONNECTION_IS_NOT_NEW: Statement = differs({ ct: { key: "state" } }, "new");

/** Matches packets of connections with packets in both directions. */
export const CONNECTION_IS_ESTABLISHED: Statement = hasBit({ ct: { key: "state" } }, "established");

/** Matches connections with a translated destination, by us or other software. */
export const CONNECTION_HAS_DNAT: Statement = hasBit({ ct: { key: "status" } }, "dnat");

/** Sets a property of the packet. */
export function assign(key: Expression, value: Expression): Statement {
  return { mangle: { key, value } };
}

/** Looks up the key in a named verdict map and applies the verdict. If there is none, the rule ends. */
export function verdictMap(key: Expression, map: string): Statement {
  return { vmap: { key, data: `@${map}` } };
}

/** A random number: `offset` plus 0 to `mod` - 1. */
export function randomNumber(mod: number, offset: number): Expression {
  return { numgen: { mode: "random", mod, offset } };
}

/** The next number in turn: `offset` plus 0 to `mod` - 1. Packets of all flows share one counter. */
export function nextNumber(mod: number, offset: number): Expression {
  return { numgen: { mode: "inc", mod, offset } };
}

/** A hash of an expression: `offset` plus 0 to `mod` - 1. */
export function hash(expr: Expression, mod: number, seed: number, offset: number): Expression {
  return { jhash: { mod, seed, offset, expr } };
}

/** Changes the destination, and ends this hook's nat chains for the packet. */
export function dnatTo(family: Family, addr: Expression): Statement {
  return { dnat: { family, addr } };
}

/** Changes the destination's address and keeps its port. nft then lists no family (1.1.3 and 1.1.7). */
export function dnatToAddress(addr: Expression): Statement {
  return { dnat: { addr } };
}

/** The protocols of echo requests, by nft's names. */
export const ECHO_PROTOCOLS = { ip: "icmp", ip6: "icmpv6" } as const satisfies ByFamily<string>;

/** Matches echo requests of a family, but not ICMP errors or neighbour discovery. */
export function echoRequest(family: Family): Statement {
  return matches(payload(ECHO_PROTOCOLS[family], "type"), "echo-request");
}
