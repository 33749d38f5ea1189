import type { Family } from "../../base/family.ts";
import type { Expression, MapStatement, Rule, SetStatement, Statement, Verdict } from "../ast/json.ts";
import { parseClassid } from "./constant.ts";
import { asReference, canonicalExpression, constantTypeOf } from "./expression.ts";
import { asFlags, asList, asNumber, asObject, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

/**
 * The one form of a rule, in which we write it and to which we bring what nft lists: the same rule
 * gives the same `JSON.stringify`. Takes the list of statements in the JSON of any nft. Sets of one
 * become their member, addresses are joined as the kernel joins them, classids and marks become
 * numbers, members stand in a fixed order.
 * @throws AppError NFT_OUTPUT that quotes the part that is not understood
 */
export function canonicalRule(rule: unknown): Rule {
  return asList(rule, "rule").map(canonicalStatement);
}

/** A verdict in its canonical form; undefined for any other statement. */
export function canonicalVerdict(statement: unknown): Verdict | undefined {
  const [kind, body] = asTagged(statement, "verdict");
  switch (kind) {
    case "accept":
      return { accept: null };
    case "drop":
      return { drop: null };
    case "return":
      return { return: null };
    case "jump":
      return { jump: { target: targetOf(body) } };
    case "goto":
      return { goto: { target: targetOf(body) } };
    default:
      return undefined;
  }
}

function targetOf(body: unknown): string {
  return asText(asObject(body, "verdict").target, "chain to go to");
}

function canonicalStatement(statement: unknown): Statement {
  const verdict = canonicalVerdict(statement);
  if (verdict !== undefined) return verdict;
  const [kind, body] = asTagged(statement, "statement");
  switch (kind) {
    case "match":
      return canonicalMatch(body);
    case "mangle": {
      const mangle = asObjectOf(body, ["key", "value"], kind);
      const key = canonicalExpression(mangle.key);
      return { mangle: { key, value: canonicalExpression(mangle.value, constantTypeOf(key)) } };
    }
    case "vmap": {
      const vmap = asObjectOf(body, ["key", "data"], kind);
      return { vmap: { key: canonicalExpression(vmap.key), data: asReference(vmap.data) } };
    }
    case "set":
      return { set: canonicalSetStatement(body) };
    case "map":
      return { map: canonicalMapStatement(body) };
    case "dnat": {
      const dnat = asObjectOf(body, ["family", "addr"], kind);
      return { dnat: { family: asFamily(dnat.family), addr: canonicalExpression(dnat.addr) } };
    }
    case "masquerade": {
      const { flags } = asObjectOf(body, ["flags"], kind);
      return { masquerade: { flags: asFlags(flags, "masquerade flags").join(",") } };
    }
    case "counter":
      return { counter: null };
    case "reject":
      return canonicalReject(body);
    default:
      throw notUnderstood(`statement "${kind}"`, statement);
  }
}

function asFamily(value: unknown): Family {
  if (value !== "ip" && value !== "ip6") throw notUnderstood("family", value);
  return value;
}

function canonicalMatch(body: unknown): Statement {
  const match = asObjectOf(body, ["op", "left", "right"], "match");
  const { op } = match;
  if (op !== "==" && op !== "!=" && op !== "in" && op !== ">=") throw notUnderstood("operator", body);
  const left = canonicalExpression(match.left);
  const right = canonicalExpression(match.right, constantTypeOf(left));
  return { match: { op: op === "==" && isBitmask(left) ? "in" : op, left, right } };
}

/** Conntrack's state and status are sets of bits; nft writes a plain comparison with them as `in`. */
function isBitmask(field: Expression): boolean {
  return typeof field === "object" && "ct" in field && (field.ct.key === "state" || field.ct.key === "status");
}

function canonicalMapStatement(body: unknown): MapStatement {
  const statement = asObjectOf(body, ["op", "elem", "data", "map"], "map statement");
  const { op } = statement;
  if (op !== "update" && op !== "delete") throw notUnderstood("operation on a map", body);
  const elem = canonicalElement(statement.elem);
  return { op, elem, data: canonicalData(statement.data), map: asReference(statement.map) };
}

function canonicalSetStatement(body: unknown): SetStatement {
  const statement = asObjectOf(body, ["op", "elem", "set", "stmt"], "set statement");
  const elem = canonicalElement(statement.elem);
  if (statement.op !== "update" || typeof elem !== "object" || !("elem" in elem)) {
    throw notUnderstood("operation on a set", body);
  }
  return {
    op: "update",
    elem,
    set: asReference(statement.set),
    ...(statement.stmt !== undefined && countersOf(statement.stmt)),
  };
}

function countersOf(stmt: unknown): Pick<SetStatement, "stmt"> {
  return {
    stmt: asList(stmt, "statements of an element").map((statement) => {
      if (asTagged(statement, "statement")[0] !== "counter") throw notUnderstood("statement of an element", statement);
      return { counter: null };
    }),
  };
}

function canonicalElement(elem: unknown): MapStatement["elem"] {
  const object = asObject(elem, "element");
  if (!("elem" in object)) return canonicalExpression(elem);
  const inner = asObjectOf(object.elem, ["val", "timeout"], "element");
  const val = canonicalExpression(inner.val);
  if (inner.timeout === undefined) return val;
  return { elem: { val, timeout: asNumber(inner.timeout, "timeout in seconds") } };
}

/** The dynamic maps hold endpoint ids only, so that a constant here is a classid. */
function canonicalData(data: unknown): Expression {
  return typeof data === "object" ? canonicalExpression(data) : parseClassid(data);
}

/** nft lists a bare `reject` with the type and code that the family gave it, and a reset by its type alone. */
function canonicalReject(body: unknown): Statement {
  if (body === null) return { reject: null };
  const reject = asObjectOf(body, ["type", "expr"], "reject");
  if (reject.type === "tcp reset" && reject.expr === undefined) return { reject: { type: "tcp reset" } };
  const isDefault = /^icmp(v6|x)?$/.test(asText(reject.type, "reject type")) && reject.expr === "port-unreachable";
  if (!isDefault) throw notUnderstood("kind of reject", body);
  return { reject: null };
}
