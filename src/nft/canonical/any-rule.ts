import type { AnyExpression, AnyRule, AnyStatement, ElementUpdate, Operator } from "../ast/any-table.ts";
import { anyConstants, anyExpression, anyTypeOf, mapData } from "./any-expression.ts";
import { assertPassing } from "./any-set.ts";
import { canonicalVerdict } from "./rule.ts";
import { asNumber, asObject, asObjectOf, asTagged, asText, type JsonObject, notUnderstood } from "./shape.ts";

/** Statements that change nothing on which the way of a packet depends. */
const WITHOUT_EFFECT = new Set([
  "counter",
  "log",
  "last",
  "continue",
  "flow",
  "ct helper",
  "ct timeout",
  "ct expectation",
]);

/** Statements that hold or not by traffic before this packet. */
const CONDITIONS = new Set(["limit", "quota", "ct count"]);

/** What xtables extensions do that change nothing here: `-m comment`, `-j LOG`. Source: iptables-extensions(8). */
const XT_WITHOUT_EFFECT = new Set(["match comment", "target LOG", "target NFLOG", "target AUDIT", "target TRACE"]);

/** Packet fields whose assignment changes neither the way of a packet nor its addresses. */
const HARMLESS_FIELDS = new Set(["dscp", "ecn", "ttl", "hoplimit", "flowlabel"]);
const HARMLESS_META = new Set(["nftrace", "secmark", "broute"]);

/** Reads a rule of any table: the list `expr` of `nft -j list`. A statement that is not understood stays as it is. */
export function anyRule(rule: unknown): AnyRule {
  return Array.isArray(rule) ? rule.map(anyStatement) : [{ notUnderstood: rule }];
}

function anyStatement(statement: unknown): AnyStatement {
  try {
    return readStatement(statement);
  } catch {
    return { notUnderstood: statement };
  }
}

function readStatement(statement: unknown): AnyStatement {
  const verdict = canonicalVerdict(statement);
  if (verdict !== undefined) return verdict;
  const [kind, body] = asTagged(statement, "statement");
  if (WITHOUT_EFFECT.has(kind)) return { noEffect: statement };
  if (CONDITIONS.has(kind)) return { condition: statement };
  switch (kind) {
    case "match":
      return readMatch(asObjectOf(body, ["op", "left", "right"], kind));
    case "mangle":
      return readMangle(statement, asObjectOf(body, ["key", "value"], kind));
    case "vmap": {
      const key = anyExpression(asObjectOf(body, ["key", "data"], kind).key);
      return { vmap: { key, data: mapData(key, asObject(body, kind).data) } };
    }
    case "set": {
      const { op, elem, set, stmt = [] } = asObjectOf(body, ["op", "elem", "set", "stmt"], kind);
      assertPassing(stmt);
      return { set: { ...readUpdate(op, elem), set: asText(set, kind) } };
    }
    case "map": {
      const { op, elem, data, map } = asObjectOf(body, ["op", "elem", "data", "map"], kind);
      return { map: { ...readUpdate(op, elem), data: anyExpression(data), map: asText(map, kind) } };
    }
    case "dnat":
      return readDnat(asObjectOf(body, ["family", "addr", "port", "flags"], kind));
    case "snat":
      return readSnat(asObjectOf(body, ["family", "addr", "port", "flags"], kind));
    case "masquerade":
      return { masquerade: body };
    case "reject":
      return { reject: body };
    case "xt":
      return readXtables(statement, asObject(body, kind));
    default:
      return { notUnderstood: statement };
  }
}

const OPERATORS: ReadonlySet<unknown> = new Set<Operator>(["==", "!=", "in", "<", ">", "<=", ">="]);

function readMatch({ op, left, right }: JsonObject): AnyStatement {
  if (!OPERATORS.has(op)) throw notUnderstood("operator", op);
  const field = anyExpression(left);
  return { match: { op: op as Operator, left: field, right: anyConstants(right, field) } };
}

function readMangle(statement: unknown, { key, value }: JsonObject): AnyStatement {
  const field = anyExpression(key);
  if (typeof field !== "object") throw notUnderstood("assignment", key);
  const isHarmless =
    ("payload" in field && "field" in field.payload && HARMLESS_FIELDS.has(field.payload.field)) ||
    ("meta" in field && HARMLESS_META.has(field.meta.key)) ||
    (typeof key === "object" && key !== null && "tcp option" in key);
  if (isHarmless) return { noEffect: statement };
  return { mangle: { key: field, value: anyExpression(value, anyTypeOf(field)) } };
}

function readUpdate(op: unknown, elem: unknown): ElementUpdate {
  if (op !== "add" && op !== "update" && op !== "delete") throw notUnderstood("operation on a set", op);
  if (typeof elem !== "object" || elem === null || !("elem" in elem)) return { op, elem: anyExpression(elem) };
  const { val, timeout = 0 } = asObjectOf(elem.elem, ["val", "timeout"], "element");
  return { op, elem: { elem: { val: anyExpression(val), timeout: asNumber(timeout, "timeout") } } };
}

/** Of several addresses or ports the kernel chooses in ways that are not known here. */
function readDnat({ family, addr, port }: JsonObject): AnyStatement {
  const type = family === "ip" || family === "ip6" ? family : "any";
  const read = { addr: anyExpression(addr, type), port: anyExpression(port, "number") };
  if ((addr !== undefined && isSeveral(read.addr)) || (port !== undefined && isSeveral(read.port))) {
    throw notUnderstood("dnat to several addresses", addr);
  }
  return {
    dnat: {
      ...familyOf({ family }),
      ...(addr !== undefined && { addr: read.addr }),
      ...(port !== undefined && { port: read.port }),
    },
  };
}

/** Tables of both families name the one whose packets a statement translates. */
function familyOf({ family }: JsonObject): { readonly family?: string } {
  return family === undefined ? {} : { family: asText(family, "family") };
}

function readSnat({ family, addr }: JsonObject): AnyStatement {
  const type = family === "ip" || family === "ip6" ? family : "any";
  return { snat: { ...familyOf({ family }), ...(addr !== undefined && { addr: anyExpression(addr, type) }) } };
}

function isSeveral(target: AnyExpression): boolean {
  return typeof target === "object" && ("range" in target || "prefix" in target || "set" in target);
}

/** iptables-nft writes extensions that nft has no words for; nft names them and nothing more. */
function readXtables(statement: unknown, { type, name }: JsonObject): AnyStatement {
  if (XT_WITHOUT_EFFECT.has(`${type} ${name}`)) return { noEffect: statement };
  return type === "match" ? { condition: statement } : { notUnderstood: statement };
}
