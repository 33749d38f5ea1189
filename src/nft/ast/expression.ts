import type { Family } from "../../base/family.ts";
import type { Expression, Statement } from "./json.ts";

/** A field of the packet: `ip daddr`, `th dport`. */
export function payload(protocol: string, field: string): Expression {
  return { payload: { protocol, field } };
}

/** Bits of the packet from the start of its network header on. */
export function networkBits(offset: number, len: number): Expression {
  return { payload: { base: "nh", offset, len } };
}

/** A value that travels with the packet: `meta mark`, `meta l4proto`. */
export function meta(key: string): Expression {
  return { meta: { key } };
}

/** A key or value of several parts: `ip daddr . meta l4proto . th dport`. */
export function concat(...parts: readonly Expression[]): Expression {
  return { concat: parts };
}

/** The value that a named map has for a key; a rule whose lookup finds nothing stops there. */
export function lookup(key: Expression, map: string): Expression {
  return { map: { key, data: `@${map}` } };
}

/** A packet goes on to the next statement only if the left side is the right one, or among it. */
export function matches(left: Expression, right: Expression): Statement {
  return { match: { op: "==", left, right } };
}

/** The opposite of {@link matches}. */
export function differs(left: Expression, right: Expression): Statement {
  return { match: { op: "!=", left, right } };
}

/** A packet goes on to the next statement only if the left side is not less than the right one. */
export function atLeast(left: Expression, right: Expression): Statement {
  return { match: { op: ">=", left, right } };
}

/** A value with some of its bits, the others 0. */
export function masked(value: Expression, mask: Expression): Expression {
  return { "&": [value, mask] };
}

/** A value in which a bit is set, and of the others those of a mask. nft lists the bit in the mask, too (1.1.3 and 1.1.7). */
export function withBit(value: Expression, mask: number, bit: number): Expression {
  return { "|": [masked(value, mask + bit), bit] };
}

/** A packet of a connection that the kernel knows already, or none at all. */
export const CONNECTION_IS_NOT_NEW: Statement = {
  match: { op: "!=", left: { ct: { key: "state" } }, right: "new" },
};

/** A packet of a connection that both sides have sent packets of. */
export const CONNECTION_IS_ESTABLISHED: Statement = {
  match: { op: "in", left: { ct: { key: "state" } }, right: "established" },
};

/** The connection's destination was translated, by us or by another. */
export const CONNECTION_HAS_DNAT: Statement = {
  match: { op: "in", left: { ct: { key: "status" } }, right: "dnat" },
};

/** Sets a value that travels with the packet. */
export function assign(key: Expression, value: Expression): Statement {
  return { mangle: { key, value } };
}

/** Looks the key up in a named verdict map and does what it says; nothing found: the next rule. */
export function verdictMap(key: Expression, map: string): Statement {
  return { vmap: { key, data: `@${map}` } };
}

/** A random number from `offset` on, one of `mod`. */
export function randomNumber(mod: number, offset: number): Expression {
  return { numgen: { mode: "random", mod, offset } };
}

/** The next number in turn from `offset` on, one of `mod`. Packets of all flows share the turn. */
export function nextNumber(mod: number, offset: number): Expression {
  return { numgen: { mode: "inc", mod, offset } };
}

/** A number from `offset` on, one of `mod`, that depends on the value of an expression alone. */
export function hash(expr: Expression, mod: number, seed: number, offset: number): Expression {
  return { jhash: { mod, seed, offset, expr } };
}

/** Changes the destination; ends the walk of the packet through this hook's nat chains. */
export function dnatTo(family: Family, addr: Expression): Statement {
  return { dnat: { family, addr } };
}

/** Changes the destination's address and keeps its port. nft lists no family then (1.1.3 and 1.1.7). */
export function dnatToAddress(addr: Expression): Statement {
  return { dnat: { addr } };
}
