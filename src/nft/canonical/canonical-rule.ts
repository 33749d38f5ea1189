import { AppError } from "../../base/errors.ts";
import { sortedEntries } from "../../base/first-sorted.ts";
import type {
  AnyDnat,
  AnyExpression,
  AnyLookup,
  AnyStatement,
  AnyUpdate,
  NotUnderstood,
} from "../ast/any-table.ts";
import type { Expression, LookupOf, Rule, Statement, UpdateOf } from "../ast/json.ts";
import { type ConstantType, typeOfExpression } from "../data-types.ts";
import { canonicalAddresses } from "./address.ts";
import { bitsOf, DSCP, parseClassid, TCP_FLAGS } from "./constant.ts";
import { readRule } from "./rule.ts";
import { asFlags, asList, asNumber, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

/**
 * Brings a rule from any nft's JSON to its canonical form, which we also write: equal rules give the same
 * `JSON.stringify`. Replaces sets of one by their member, joins addresses as the kernel does, turns classids
 * and marks into numbers, and sorts members.
 * @throws AppError NFT_OUTPUT with the part that is not understood, or that our rules never have
 */
export function canonicalRule(rule: unknown): Rule {
  return readRule(asList(rule, "rule")).map(canonicalStatement);
}

function canonicalStatement(statement: AnyStatement): Statement {
  if ("match" in statement) return canonicalMatch(statement.match);
  if ("mangle" in statement) {
    const { key, value } = statement.mangle;
    return {
      mangle: { key: canonicalExpression(key), value: canonicalExpression(value, typeOfExpression(key)) },
    };
  }
  if ("vmap" in statement) return { vmap: canonicalLookup(statement.vmap) };
  if ("set" in statement) return { set: { ...statement.set, elem: canonicalElement(statement.set.elem) } };
  if ("map" in statement) {
    const { elem, data } = statement.map;
    // A constant is a classid here, as the dynamic maps hold only endpoint ids.
    const value = typeof data === "object" ? canonicalExpression(data) : parseClassid(data);
    return { map: { ...statement.map, elem: canonicalElement(elem), data: value } };
  }
  if ("dnat" in statement) return { dnat: canonicalDnat(statement.dnat) };
  if ("masquerade" in statement) {
    const { flags } = asObjectOf(statement.masquerade, ["flags"], "masquerade");
    return { masquerade: { flags: asFlags(flags, "masquerade flags").join(",") } };
  }
  if ("reject" in statement) return canonicalReject(statement.reject);
  if ("notUnderstood" in statement) throw errorOf(statement);
  if ("noEffect" in statement) return canonicalDscp(statement.noEffect);
  if ("condition" in statement) throw neverOurs(statement.condition);
  if ("snat" in statement) throw neverOurs(statement);
  return statement;
}

/** `ip dscp set af11`, with the number. */
function canonicalDscp(statement: unknown): Statement {
  const [kind, body] = asTagged(statement, "statement");
  if (kind !== "mangle") throw neverOurs(statement);
  const { key, value } = asObjectOf(body, ["key", "value"], kind);
  const { payload } = asObjectOf(key, ["payload"], "assignment");
  const { protocol, field } = asObjectOf(payload, ["protocol", "field"], "payload");
  if (field !== "dscp") throw neverOurs(statement);
  const number = typeof value === "string" ? DSCP[value] : undefined;
  return {
    mangle: {
      key: { payload: { protocol: asText(protocol, "payload"), field } },
      value: number ?? asNumber(value, "dscp"),
    },
  };
}

/** The error for a known statement that our rules never have. */
function neverOurs(statement: unknown): AppError {
  return notUnderstood(`statement "${asTagged(statement, "statement")[0]}"`, statement);
}

function errorOf({ notUnderstood: part, error }: NotUnderstood): AppError {
  return error instanceof AppError ? error : notUnderstood("a part", part);
}

type Match = Extract<AnyStatement, { readonly match: unknown }>["match"];

function canonicalMatch({ op, left, right }: Match): Statement {
  const field = canonicalExpression(left);
  const canonicalRight = op === "in" ? canonicalBits : canonicalExpression;
  return {
    match: {
      op: op === "==" && isBitmask(field) ? "in" : op,
      left: field,
      right: canonicalRight(right, typeOfExpression(left)),
    },
  };
}

/** Some of several bits: nft lists them as members, but reads a set of them as one of several values. */
function canonicalBits(right: AnyExpression, type: ConstantType): Expression {
  if (typeof right !== "object" || !("set" in right || "|" in right)) return canonicalExpression(right, type);
  const bits = canonicalSet(bitsOf(right), type);
  if (typeof bits !== "object" || !("set" in bits)) return bits;
  return bits.set.reduce((all, bit) => ({ "|": [all, bit] }));
}

/** Conntrack's state and status are sets of bits. nft writes plain comparisons with them as `in`. */
function isBitmask(field: Expression): boolean {
  return (
    typeof field === "object" && "ct" in field && (field.ct.key === "state" || field.ct.key === "status")
  );
}

function canonicalLookup({ key, data }: AnyLookup): LookupOf<never> {
  return { key: canonicalExpression(key), data: canonicalExpression(data) };
}

function canonicalElement(elem: AnyUpdate["elem"]): UpdateOf<never>["elem"] {
  if (typeof elem !== "object" || !("elem" in elem)) return canonicalExpression(elem);
  const { val, timeout } = elem.elem;
  return { elem: { val: canonicalExpression(val), timeout } };
}

function canonicalDnat(dnat: AnyDnat): Extract<Statement, { readonly dnat: unknown }>["dnat"] {
  const { family, addr, port, flags } = dnat;
  if (family !== undefined && family !== "ip" && family !== "ip6") throw notUnderstood("family", family);
  if (addr === undefined || port !== undefined || flags !== undefined) throw notUnderstood("dnat", dnat);
  return { ...(family !== undefined && { family }), addr: canonicalExpression(addr) };
}

/** nft lists a plain `reject` with the type and code of the family, and a reset with its type. */
function canonicalReject(body: unknown): Statement {
  if (body === null) return { reject: null };
  const { type, expr } = asObjectOf(body, ["type", "expr"], "reject");
  if (type === "tcp reset" && expr === undefined) return { reject: { type: "tcp reset" } };
  const isDefault = /^icmp(v6|x)?$/.test(asText(type, "reject type")) && expr === "port-unreachable";
  if (!isDefault) throw notUnderstood("kind of reject", body);
  return { reject: null };
}

/** An expression in its canonical form; `type` is that of the constants in it. */
function canonicalExpression(expression: AnyExpression, type: ConstantType = "other"): Expression {
  if (typeof expression !== "object") return canonicalConstant(expression, type);
  if ("notUnderstood" in expression) throw errorOf(expression);
  if ("anonymous" in expression) throw notUnderstood("set written into a rule", expression);
  if ("exists" in expression) throw notUnderstood("expression", expression.exists);
  if ("concat" in expression) return { concat: expression.concat.map((part) => canonicalExpression(part)) };
  if ("set" in expression) return canonicalSet(expression.set, type);
  if ("prefix" in expression || "range" in expression) return canonicalSet([expression], type);
  if ("map" in expression) return { map: canonicalLookup(expression.map) };
  if ("jhash" in expression) {
    const { seed, expr } = expression.jhash;
    if (seed === undefined) throw notUnderstood("jhash seed", seed);
    return { jhash: { ...expression.jhash, seed, expr: canonicalExpression(expr) } };
  }
  if ("|" in expression) return { "|": canonicalOperands(expression["|"]) };
  if ("&" in expression) return { "&": canonicalOperands(expression["&"]) };
  if ("^" in expression) return { "^": canonicalOperands(expression["^"]) };
  return expression;
}

function canonicalOperands([left, right]: readonly [AnyExpression, AnyExpression]): readonly [
  Expression,
  Expression,
] {
  return [canonicalExpression(left), canonicalExpression(right, typeOfExpression(left))];
}

/** TCP's flags by name, as nft lists them. All other constants are canonical when read. */
function canonicalConstant(value: string | number, type: ConstantType): string | number {
  if (type !== "tcp_flag") return value;
  return Object.keys(TCP_FLAGS).find((name) => TCP_FLAGS[name] === value) ?? value;
}

function canonicalSet(items: readonly AnyExpression[], type: ConstantType): Expression {
  if (type === "ipv4_addr" || type === "ipv6_addr") {
    return canonicalAddresses(type === "ipv4_addr" ? "ip" : "ip6", items);
  }
  const byText = new Map(
    items.map((item) => {
      const member = canonicalMember(item, type);
      return [JSON.stringify(member), member] as const;
    }),
  );
  // Sorted, as the kernel lists anonymous sets of such members by hash.
  const members = sortedEntries(byText).map(([, member]) => member);
  const [lone] = members;
  if (lone === undefined) throw notUnderstood("empty set", items);
  return members.length === 1 ? lone : { set: members };
}

function canonicalMember(item: AnyExpression, type: ConstantType): Expression {
  if (typeof item !== "object") return canonicalConstant(item, type);
  if ("notUnderstood" in item) throw errorOf(item);
  if (!("range" in item)) throw notUnderstood("member of a set", item);
  return { range: [canonicalExpression(item.range[0], type), canonicalExpression(item.range[1], type)] };
}
