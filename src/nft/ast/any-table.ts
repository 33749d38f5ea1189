/**
 * Tables of any software, as far as they are understood. Our own rules and tables are a part of this: a `Rule` is an
 * {@link AnyRule}, a `Table` an {@link AnyTable}. Source: libnftables-json(5).
 */
import type { Family } from "../../base/family.ts";
import type { FlowStatement, PayloadField, RawPayload, Verdict } from "./json.ts";

/** The families of tables that see IP packets. */
export type TableFamily = Family | "inet";

/** The identity of a table. */
export interface TableName {
  readonly family: TableFamily;
  readonly name: string;
}

/** A part of a rule that is not understood, as nft's JSON has it, and what is the matter with it. */
export interface NotUnderstood {
  readonly notUnderstood: unknown;
  readonly error?: unknown;
}

/** Two operands. */
type Pair = readonly [AnyExpression, AnyExpression];

/** A value in a rule. Constants are canonical: addresses as text, ports, marks and TCP flags as numbers. */
export type AnyExpression =
  | string
  | number
  | { readonly payload: PayloadField | RawPayload }
  | { readonly meta: { readonly key: string } }
  | { readonly ct: { readonly key: string; readonly dir?: "original" | "reply" } }
  | { readonly fib: { readonly flags: readonly string[]; readonly result: string } }
  /** `exists` or `missing`: what the other side of a comparison is looked up for. */
  | { readonly exists: boolean }
  | { readonly numgen: { readonly mode: "random" | "inc"; readonly mod: number; readonly offset: number } }
  | { readonly jhash: AnyJhash }
  | { readonly concat: readonly AnyExpression[] }
  | { readonly set: readonly AnyExpression[] }
  | { readonly prefix: { readonly addr: string; readonly len: number } }
  | { readonly range: Pair }
  | { readonly map: { readonly key: AnyExpression; readonly data: AnyExpression | AnonymousSet } }
  | { readonly "|": Pair }
  | { readonly "&": Pair }
  | { readonly "^": Pair }
  | NotUnderstood;

/** A hash; the kernel chooses a seed where none is given. */
export interface AnyJhash {
  readonly mod: number;
  readonly seed?: number;
  readonly offset: number;
  readonly expr: AnyExpression;
}

/** A set or map that is written into a rule. */
export interface AnonymousSet {
  readonly anonymous: AnySet;
}

/** How a comparison compares. `in` is for sets of bits: any of them. */
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
  | { readonly vmap: { readonly key: AnyExpression; readonly data: AnyExpression | AnonymousSet } }
  | { readonly map: ElementUpdate & { readonly data: AnyExpression; readonly map: string } }
  /** `stmt` counts the packets of each element. */
  | { readonly set: ElementUpdate & { readonly set: string; readonly stmt?: readonly AnyStatement[] } }
  | { readonly dnat: AnyDnat }
  /** Ports and flags are not told: no rule here depends on them. */
  | { readonly snat: { readonly family?: string; readonly addr?: AnyExpression } }
  | { readonly masquerade: unknown }
  | { readonly reject: unknown }
  | { readonly counter: null }
  | { readonly flow: FlowStatement }
  /** Counts, logs, or changes something on which no rule here depends. */
  | { readonly noEffect: unknown }
  /** Holds or does not hold, by something that is not known of a packet: a rate, a quota, an xtables match. */
  | { readonly condition: unknown }
  | NotUnderstood;

/** A translation of the destination. `flags` choose among several addresses or ports. */
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

/** A rule is the list of its statements. */
export type AnyRule = readonly AnyStatement[];

/** What makes a chain a base chain. Hooks outside the IP layer (`ingress`) occur as well. */
export interface AnyBaseChain {
  readonly type: string;
  readonly hook: string;
  readonly prio: number;
  readonly policy: "accept" | "drop";
}

/** A chain of any table. */
export interface AnyChain {
  readonly name: string;
  readonly base?: AnyBaseChain;
  readonly rules: readonly AnyRule[];
  /** Each rule as `nft list` prints it, where that was asked. */
  readonly texts?: readonly string[];
}

/** A set or map with its elements. */
export interface AnySet {
  /**
   * `dynamic`: packets add elements. `size`: most elements that it takes. `timeout`: of its elements, in seconds.
   * `interval`: the keys of `elements` are addresses, prefixes and ranges, or end in ranges of ports.
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
  /** Elements that stand for several keys; of those that include a key, the first counts. */
  readonly intervals?: readonly IntervalElement[];
  /** Set when the declaration or an element is not understood: what it holds is not known. */
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

/** A table of any software. */
export interface AnyTable extends TableName {
  readonly chains: ReadonlyMap<string, AnyChain>;
  readonly sets: ReadonlyMap<string, AnySet>;
}
