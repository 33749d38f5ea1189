import type { Family } from "../../base/family.ts";
import type { Rule } from "./json.ts";

/** The data types of our keys and values, by nft's names. */
export type DataType = "ipv4_addr" | "ipv6_addr" | "inet_proto" | "inet_service" | "classid" | "integer";

/** The hook of a base chain, its priority as a number (dstnat is -100, filter 0, srcnat 100). */
export interface BaseChain {
  readonly type: "filter" | "nat";
  readonly hook: "prerouting" | "input" | "forward" | "output" | "postrouting";
  readonly prio: number;
  readonly policy: "accept" | "drop";
}

/** A chain with its rules in canonical form (see canonical.ts). */
export interface Chain {
  readonly name: string;
  readonly base?: BaseChain;
  readonly rules: readonly Rule[];
}

/** A set's or map's declaration. `value` is absent for a set. */
export interface SetSpec {
  readonly name: string;
  readonly key: readonly DataType[];
  readonly value?: "verdict" | readonly DataType[];
  /** Filled by packets: declared and kept, its elements never compared. */
  readonly dynamic: boolean;
  /** Of a dynamic set: its elements have no timeouts, because the kernel deletes unused ones. */
  readonly untimed?: true;
  /** Maximum number of elements. The kernel refuses transactions that exceed it. */
  readonly size?: number;
  /** Time after which the kernel deletes elements that we added. Seconds. */
  readonly timeout?: number;
  /** Whether each element counts the packets that it matches. */
  readonly counter: boolean;
  /** Elements are prefixes, ranges and addresses; in a concatenation, the last part is a port range. */
  readonly interval?: true;
}

/**
 * A set or map with its elements. Keys and values are canonical text, parts joined with " . " in nft's way:
 * `2147483652 . 0` to `10.244.1.16 . 53`, `goto balance-2`, `drop`; "" as the value in a set. Numbers are
 * decimal (a classid too), addresses as ip.ts makes them; a key of an interval set is `10.0.0.1`,
 * `10.0.0.0/8` or `10.0.0.1-10.0.0.9`, no two of which overlap or touch, or of a concatenation
 * `10.0.0.1 . tcp . 80-99` and `10.0.0.1 . tcp . 80-80`, no two of which overlap.
 */
export interface ElementSet {
  readonly spec: SetSpec;
  readonly elements: ReadonlyMap<string, string>;
}

/**
 * A flow table: the kernel forwards packets of its connections from ingress, past prerouting, forward and
 * postrouting. Its devices change with the host's, and are not compared.
 */
export interface Flowtable {
  readonly name: string;
  readonly hook: "ingress";
  readonly prio: number;
}

/**
 * An object of type `ct timeout`: the connection timeouts to which a rule assigns it. The kernel cannot
 * change it, and does not delete it while a rule refers to it.
 */
export interface TimeoutPolicy {
  readonly name: string;
  readonly protocol: string;
  /** Seconds by nft's names of conntrack's states: all of the protocol. */
  readonly policy: Readonly<Record<string, number>>;
}

/** One of our two tables. */
export interface Table {
  readonly family: Family;
  readonly name: string;
  /** Whether another program has switched off the chains of the table. */
  readonly isDormant?: boolean;
  readonly flowtable?: Flowtable;
  readonly timeouts?: ReadonlyMap<string, TimeoutPolicy>;
  readonly chains: ReadonlyMap<string, Chain>;
  readonly sets: ReadonlyMap<string, ElementSet>;
}

/** Both tables; a family is absent if the kernel has no such table. */
export type Ruleset = Readonly<Partial<Record<Family, Table>>>;

/** The name of our tables. */
export const TABLE_NAME = "nft-proxy";
