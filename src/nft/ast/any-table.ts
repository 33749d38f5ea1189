/**
 * Tables of any software, as far as they are understood. Our own are a special case: a `Rule` is an
 * {@link AnyRule}, a `Table` an {@link AnyTable}. Source: libnftables-json(5).
 */
import type { Family } from "../../base/family.ts";
import type { ElementStatement, FlowStatement, SimpleExpression, TimeoutStatement, Verdict } from "./json.ts";

/** The families of tables that see IP packets. */
export type TableFamily = Family | "inet";

/** The identity of a table. */
export interface TableName {
  readonly family: TableFamily;
  readonly name: string;
}

/** A part of a rule that is not understood: nft's JSON and the reason. */
export interface NotUnderstood {
  readonly notUnderstood: unknown;
  readonly error?: unknown;
}

type Pair = readonly [AnyExpression, AnyExpression];

/** A value in a rule. Constants are canonical: addresses as text, ports, marks and TCP flags as numbers. */
export type AnyExpression =
  | SimpleExpression
  /** `exists` or `missing`: compares whether the other side exists. */
  | { readonly exists: boolean }
  | { readonly jhash: AnyJhash }
  | { readonly concat: readonly AnyExpression[] }
  | { readonly set: readonly AnyExpression[] }
  | { readonly prefix: { readonly addr: string; readonly len: number } }
  | { readonly range: Pair }
  | { readonly map: AnyLookup }
  | { readonly "|": Pair }
  | { readonly "&": Pair }
  | { readonly "^": Pair }
  | NotUnderstood;

/** A lookup of a key in a map. */
export interface AnyLookup {
  readonly key: AnyExpression;
  readonly data: AnyExpression | AnonymousSet;
}

/** A hash; without a seed, the kernel chooses one. */
export interface AnyJhash {
  readonly mod: number;
  readonly seed?: number;
  readonly offset: number;
  readonly expr: AnyExpression;
}

/** An anonymous set or map in a rule. */
export interface AnonymousSet {
  readonly anonymous: AnySet;
}

/** The operator of a comparison. `in` matches any of a set of bits. */
export type Operator = "==" | "!=" | "in" | "<" | ">" | "<=" | ">=";

/** One step of a rule. */
export type AnyStatement =
  | Verdict
  | {
      readonly match: {
        readonly op: Operator;
        readonly left: AnyExpression;
        readonly right: AnyExpression | AnonymousSet;
      };
    }
  | { readonly mangle: { readonly key: AnyExpression; readonly value: AnyExpression } }
  | { readonly vmap: AnyLookup }
  | { readonly map: ElementUpdate & { readonly data: AnyExpression; readonly map: string } }
  /** `stmt` counts the packets of each element, or limits its packets or connections. */
  | { readonly set: ElementUpdate & { readonly set: string; readonly stmt?: readonly AnyElementStatement[] } }
  | { readonly dnat: AnyDnat }
  /** Without ports and flags, which no rule here depends on. */
  | { readonly snat: { readonly family?: string; readonly addr?: AnyExpression } }
  | { readonly masquerade: unknown }
  | { readonly reject: unknown }
  | { readonly counter: null }
  | { readonly flow: FlowStatement }
  | TimeoutStatement
  /** Counts, logs, or changes something that no rule here depends on. */
  | { readonly noEffect: unknown }
  /** A condition on something unknown about a packet: a rate, a quota, an xtables match. */
  | { readonly condition: unknown }
  | NotUnderstood;

/** A statement of an element. */
export type AnyElementStatement = ElementStatement | { readonly noEffect: unknown };

/** Translates the destination. `flags` choose among several addresses or ports. */
export interface AnyDnat {
  readonly family?: string;
  readonly addr?: AnyExpression;
  readonly port?: AnyExpression;
  readonly flags?: readonly string[];
}

/** `update @s { k timeout t }`. */
export interface ElementUpdate {
  readonly op: "add" | "update" | "delete";
  readonly elem: AnyExpression | { readonly elem: { readonly val: AnyExpression; readonly timeout: number } };
}

export type AnyRule = readonly AnyStatement[];

/** The properties of a base chain. Hooks outside the IP layer (`ingress`) occur as well. */
export interface AnyBaseChain {
  readonly type: string;
  readonly hook: string;
  readonly prio: number;
  readonly policy: "accept" | "drop";
}

export interface AnyChain {
  readonly name: string;
  readonly base?: AnyBaseChain;
  readonly rules: readonly AnyRule[];
  /** Each rule as `nft list` prints it, if requested. */
  readonly texts?: readonly string[];
}

/** A set or map with its elements. */
export interface AnySet {
  /**
   * `dynamic`: packets add elements. `size`: maximum number of elements. `timeout`: of its elements, in
   * seconds. `interval`: the keys are addresses, prefixes and ranges, or end in port ranges.
   */
  readonly spec: {
    readonly name: string;
    readonly dynamic: boolean;
    readonly size?: number;
    readonly timeout?: number;
    readonly interval?: true;
  };
  /** Canonical text, see `ElementSet`: the key's parts joined with " . " to the value, "" in a set. */
  readonly elements: ReadonlyMap<string, string>;
  /** Elements that match several keys. The first that matches a key counts. */
  readonly intervals?: readonly IntervalElement[];
  /** Set if the declaration or an element is not understood, so that the content is unknown. */
  readonly unreadable?: true;
}

/** An element whose key has prefixes, ranges or wildcards. */
export interface IntervalElement {
  readonly parts: readonly KeyPart[];
  readonly value: string;
}

/** One part of such a key. */
export type KeyPart =
  | { readonly kind: "exact"; readonly text: string }
  | { readonly kind: "addresses"; readonly family: Family; readonly first: bigint; readonly last: bigint }
  | { readonly kind: "numbers"; readonly first: number; readonly last: number }
  | { readonly kind: "names"; readonly prefix: string }
  | { readonly kind: "any" };

export interface AnyTable extends TableName {
  readonly chains: ReadonlyMap<string, AnyChain>;
  readonly sets: ReadonlyMap<string, AnySet>;
}
