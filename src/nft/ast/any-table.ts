/**
 * Tables of any software, as far as they are understood. Our own are a special case: a `Rule` is an
 * {@link AnyRule}, a `Table` an {@link AnyTable}. Source: libnftables-json(5).
 */
import type { Family } from "../../base/family.ts";
import type { CommonStatement, ExpressionOf, JhashOf, LookupOf, UpdateOf } from "./json.ts";
import type { SetSpec } from "./ruleset.ts";

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

/** What only expressions of other software have. */
type Foreign =
  /** `exists` or `missing`: compares whether the other side exists. */
  | { readonly exists: boolean }
  /** An anonymous set or map in a rule. */
  | { readonly anonymous: AnySet }
  | NotUnderstood;

/**
 * A value in a rule. Constants are canonical: addresses as text, ports, marks, TCP flags and DSCP values as
 * numbers.
 */
export type AnyExpression = ExpressionOf<Foreign>;
export type AnyLookup = LookupOf<Foreign>;
export type AnyJhash = JhashOf<Foreign>;
export type AnyUpdate = UpdateOf<Foreign>;

/** The content of a kind of statements or expressions: of `{ match: X }`, X. */
export type ContentOf<Node, Kind extends string> = Extract<Node, Readonly<Record<Kind, unknown>>>[Kind];

/** A step of any rule. */
export type AnyStatement =
  | CommonStatement<Foreign>
  | { readonly dnat: AnyNat }
  /** No rule here depends on its ports and flags. */
  | { readonly snat: AnyNat }
  | { readonly masquerade: unknown }
  | { readonly reject: unknown }
  /** Counts, logs, or changes something that no rule here depends on. */
  | { readonly noEffect: { readonly mangle?: ContentOf<CommonStatement<Foreign>, "mangle"> } }
  /** A condition on something unknown about a packet: a rate, a quota, an xtables match. */
  | { readonly condition: unknown }
  | NotUnderstood;

/** The new address and port of one end. `flags`, as nft lists them, choose among several. */
export interface AnyNat {
  readonly family?: string;
  readonly addr?: AnyExpression;
  readonly port?: AnyExpression;
  readonly flags?: unknown;
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
  readonly spec: Pick<SetSpec, "name" | "dynamic" | "size" | "timeout" | "interval">;
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
