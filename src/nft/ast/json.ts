import type { Family } from "../../base/family.ts";

/** The part of nft's JSON that we write and read. Source: libnftables-json(5), nft 1.1.3. */

/** An expression without nested ones: packet fields and constants. */
export type SimpleExpression =
  | string
  | number
  | { readonly payload: PayloadField | RawPayload }
  | { readonly meta: { readonly key: string } }
  | { readonly ct: { readonly key: string; readonly dir?: "original" | "reply" } }
  | { readonly fib: { readonly flags: readonly string[]; readonly result: string } }
  | { readonly numgen: { readonly mode: "random" | "inc"; readonly mod: number; readonly offset: number } };

/**
 * An expression: packet fields, constants, lookups.
 * @template Other what only rules of other software have, at any depth
 */
export type ExpressionOf<Other> =
  | Other
  | SimpleExpression
  | { readonly jhash: JhashOf<Other> }
  | { readonly concat: readonly ExpressionOf<Other>[] }
  | { readonly set: readonly ExpressionOf<Other>[] }
  | { readonly prefix: { readonly addr: string; readonly len: number } }
  | { readonly range: Pair<Other> }
  | { readonly map: LookupOf<Other> }
  | { readonly "|": Pair<Other> }
  | { readonly "&": Pair<Other> }
  | { readonly "^": Pair<Other> };

/** An expression in our own rules. */
export type Expression = ExpressionOf<never>;

type Pair<Other> = readonly [ExpressionOf<Other>, ExpressionOf<Other>];

/** A lookup of a key in a map. */
export interface LookupOf<Other> {
  readonly key: ExpressionOf<Other>;
  readonly data: ExpressionOf<Other>;
}

/** A field of a header by its name: `ip daddr`, `th dport`. */
export interface PayloadField {
  readonly protocol: string;
  readonly field: string;
}

/** Bits of a packet from the start of a header on: `@nh,96,96`. */
export interface RawPayload {
  readonly base: "ll" | "nh" | "th";
  readonly offset: number;
  readonly len: number;
}

/**
 * `jhash EXPR mod M seed S offset O`: a number from `offset` on, one of `mod`. Without a seed, the kernel
 * chooses one.
 */
export interface JhashOf<Other> {
  readonly mod: number;
  readonly seed: number | ([Other] extends [never] ? never : undefined);
  readonly offset: number;
  readonly expr: ExpressionOf<Other>;
}

/** A verdict, as a statement and as the value of a verdict map. */
export type Verdict =
  | { readonly accept: null }
  | { readonly drop: null }
  | { readonly return: null }
  | { readonly jump: { readonly target: string } }
  | { readonly goto: { readonly target: string } };

/** The operator of a comparison. `in` matches any of a set of bits. */
export type Operator = "==" | "!=" | "in" | "<" | ">" | "<=" | ">=";

/** A step of a rule that is the same in all software's rules, except for its expressions. */
export type CommonStatement<Other> =
  | Verdict
  | {
      readonly match: {
        readonly op: Operator;
        readonly left: ExpressionOf<Other>;
        readonly right: ExpressionOf<Other>;
      };
    }
  | { readonly mangle: { readonly key: ExpressionOf<Other>; readonly value: ExpressionOf<Other> } }
  | { readonly vmap: LookupOf<Other> }
  | { readonly map: UpdateOf<Other> & { readonly data: ExpressionOf<Other>; readonly map: string } }
  | { readonly set: UpdateOf<Other> & { readonly set: string; readonly stmt?: readonly ElementStatement[] } }
  /** Counts packets and bytes. */
  | { readonly counter: null }
  /**
   * `flow add @f`: the flow table, named with `@`, forwards later packets of the connection. The kernel
   * ignores packets that it cannot forward that way.
   */
  | { readonly flow: { readonly op: "add"; readonly flowtable: string } }
  /**
   * `ct timeout set "NAME"`: a new connection gets the timeouts of an object. The kernel ignores it for other
   * connections, and for packets of another protocol than the object's.
   */
  | { readonly "ct timeout": string };

/** One step of our own rules. */
export type Statement =
  | CommonStatement<never>
  | { readonly dnat: { readonly family?: Family; readonly addr: Expression } }
  | { readonly masquerade: { readonly flags: string } }
  /** With an ICMP error, or a reset for TCP. */
  | { readonly reject: null | { readonly type: "tcp reset" } };

/** Changes an element: `update @m { k timeout t : v }`, `delete @m { k : v }`, `add @s { k counter }`. */
export interface UpdateOf<Other> {
  readonly op: "add" | "update" | "delete";
  readonly elem:
    | ExpressionOf<Other>
    | { readonly elem: { readonly val: ExpressionOf<Other>; readonly timeout: number } };
}

/** A statement of an element; the last two continue only with packets beyond their limit. */
export type ElementStatement =
  | { readonly counter: null }
  | LastStatement
  | { readonly "ct count": { readonly val: number; readonly inv: true } }
  | { readonly limit: RateLimit & { readonly inv: true } };

/** A rate of packets, and the allowed burst. */
export interface RateLimit {
  readonly rate: number;
  readonly per: "second" | "minute" | "hour";
  readonly burst: number;
}

export type Rule = readonly Statement[];

/** Limits packets per second; only in rules for tracing. */
export interface LimitStatement {
  readonly limit: RateLimit & { readonly per: "second" };
}

/** Records the time of the last packet; of ours, only in a rule that tests the kernel's version. */
export interface LastStatement {
  readonly last: null;
}

/** An element of a set (an expression), or of a map (key and value); `elem` carries its properties. */
export type ElementJson = ElementKeyJson | readonly [ElementKeyJson, Expression | Verdict];

/** An element's key, plain or with its timeout. */
export type ElementKeyJson =
  | Expression
  | {
      readonly elem: {
        readonly val: Expression;
        readonly timeout?: number;
        readonly expires?: number;
        readonly counter?: null;
      };
    };

/** Names an object of a table. */
interface InTable {
  readonly family: Family;
  readonly table: string;
  readonly name: string;
}

/** The object of a command. */
export type CommandObject =
  | { readonly table: { readonly family: Family; readonly name: string } }
  | { readonly chain: ChainJson }
  | {
      readonly rule: {
        readonly family: Family;
        readonly table: string;
        readonly chain: string;
        readonly expr: readonly (Statement | LimitStatement | LastStatement)[];
      };
    }
  | { readonly set: SetJson }
  | { readonly map: SetJson & { readonly map: TypeJson } }
  | { readonly flowtable: FlowtableJson }
  | { readonly "ct timeout": TimeoutJson }
  | { readonly element: InTable & { readonly elem: readonly ElementJson[] } };

/** A chain; the last four only for base chains. */
export interface ChainJson extends InTable {
  readonly type?: string;
  readonly hook?: string;
  readonly prio?: number;
  readonly policy?: string;
}

/** A flow table; hook, priority and devices only to add it. */
export interface FlowtableJson extends InTable {
  readonly hook?: "ingress";
  readonly prio?: number;
  readonly dev?: readonly string[];
}

/** An object with timeouts; protocol and policy only to add it. */
export interface TimeoutJson extends InTable {
  readonly protocol?: string;
  readonly policy?: Readonly<Record<string, number>>;
}

/** The type of keys or values: one name, several, or the type of an expression. */
export type TypeJson =
  | string
  | readonly string[]
  | { readonly typeof: Expression | { readonly accept: null } };

/** A set's declaration. */
export interface SetJson extends InTable {
  readonly type?: TypeJson;
  readonly flags?: readonly string[];
  readonly size?: number;
  readonly timeout?: number;
  readonly stmt?: readonly { readonly counter: null }[];
}

/** One command of a transaction. */
export type Command =
  | { readonly add: CommandObject }
  | { readonly delete: CommandObject }
  | { readonly flush: CommandObject };

/** The input of `nft -j -f -`, which applies all of it or nothing. */
export interface Transaction {
  readonly nftables: readonly Command[];
}
