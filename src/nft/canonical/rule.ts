import type { AnyExpression, AnyNat, AnyRule, AnyStatement, AnyUpdate } from "../ast/any-table.ts";
import type { ElementStatement, Operator, RateLimit } from "../ast/json.ts";
import { type ConstantType, typeOfExpression } from "../data-types.ts";
import { readVerdict } from "./elements.ts";
import { readConstants, readExpression, readLookedUp } from "./expression.ts";
import {
  asList,
  asNumber,
  asObject,
  asObjectOf,
  asTagged,
  asText,
  type JsonObject,
  notUnderstood,
  understood,
} from "./shape.ts";

/** Statements that do not affect the path of a packet. */
const WITHOUT_EFFECT = new Set(["log", "last", "continue", "ct helper", "ct timeout", "ct expectation"]);

/** Conditions on earlier traffic. */
const CONDITIONS = new Set(["limit", "quota", "ct count"]);

/** Extensions of xtables that change nothing here: `-m comment`, `-j LOG`. Source: iptables-extensions(8). */
const XT_WITHOUT_EFFECT = new Set([
  "match comment",
  "target LOG",
  "target NFLOG",
  "target AUDIT",
  "target TRACE",
]);

/** Packet fields that affect neither the path of a packet nor its addresses. */
const HARMLESS_FIELDS = new Set(["dscp", "ecn", "ttl", "hoplimit", "flowlabel"]);
const HARMLESS_META = new Set(["nftrace", "secmark", "broute"]);

/**
 * Reads a rule of any table: the list `expr` in any nft's JSON. Parts that are not understood are kept as
 * such. For our own rules see {@link canonicalRule}.
 */
export function readRule(rule: unknown): AnyRule {
  const statements = understood(rule, () => asList(rule, "rule"));
  return "notUnderstood" in statements ? [statements] : statements.map(readStatement);
}

/** Reads a statement as {@link readRule} does. */
export function readStatement(statement: unknown): AnyStatement {
  return understood(statement, () => knownStatement(statement));
}

function knownStatement(statement: unknown): AnyStatement {
  const verdict = readVerdict(statement);
  if (verdict !== undefined) return verdict;
  const [kind, body] = asTagged(statement, "statement");
  if (kind === "ct timeout" && typeof body === "string") return { "ct timeout": body };
  if (WITHOUT_EFFECT.has(kind)) return { noEffect: {} };
  if (CONDITIONS.has(kind)) return { condition: statement };
  switch (kind) {
    case "counter":
      return { counter: null };
    case "flow": {
      const { op, flowtable } = asObjectOf(body, ["op", "flowtable"], "flow statement");
      if (op !== "add") throw notUnderstood("operation on a flow table", op);
      return { flow: { op, flowtable: asText(flowtable, "flow table") } };
    }
    case "match":
      return readMatch(asObjectOf(body, ["op", "left", "right"], kind));
    case "mangle":
      return readMangle(asObjectOf(body, ["key", "value"], kind));
    case "vmap": {
      const { key, data } = asObjectOf(body, ["key", "data"], kind);
      const read = readExpression(key);
      return { vmap: { key: read, data: readLookedUp(read, data) } };
    }
    case "set": {
      const { op, elem, set, stmt } = asObjectOf(body, ["op", "elem", "set", "stmt"], "set statement");
      const statements = stmt === undefined ? {} : { stmt: readElementStatements(stmt) };
      return { set: { ...readUpdate(op, elem), set: asText(set, kind), ...statements } };
    }
    case "map": {
      const { op, elem, data, map } = asObjectOf(body, ["op", "elem", "data", "map"], "map statement");
      return { map: { ...readUpdate(op, elem), data: readExpression(data), map: asText(map, kind) } };
    }
    case "dnat": {
      const dnat = readNat(body, kind);
      // How the kernel chooses among several is not evaluated.
      if (isSeveral(dnat.addr) || isSeveral(dnat.port))
        throw notUnderstood("dnat to several addresses", body);
      return { dnat };
    }
    case "snat":
      return { snat: readNat(body, kind) };
    case "masquerade":
      return { masquerade: body };
    case "reject":
      return { reject: body };
    case "xt":
      return readXtables(statement, asObject(body, kind));
    default:
      throw notUnderstood(`statement "${kind}"`, statement);
  }
}

const OPERATORS: ReadonlySet<unknown> = new Set<Operator>(["==", "!=", "in", "<", ">", "<=", ">="]);

function readMatch({ op, left, right }: JsonObject): AnyStatement {
  if (!OPERATORS.has(op)) throw notUnderstood("operator", op);
  const field = readExpression(left);
  return { match: { op: op as Operator, left: field, right: readConstants(right, field) } };
}

function readMangle({ key, value }: JsonObject): AnyStatement {
  const field = readExpression(key);
  if (typeof field !== "object") throw notUnderstood("assignment", key);
  const isHarmless =
    ("payload" in field && "field" in field.payload && HARMLESS_FIELDS.has(field.payload.field)) ||
    ("meta" in field && HARMLESS_META.has(field.meta.key)) ||
    (typeof key === "object" && key !== null && "tcp option" in key);
  const mangle = { key: field, value: readExpression(value, typeOfExpression(field)) };
  return isHarmless ? { noEffect: { mangle } } : { mangle };
}

function readUpdate(op: unknown, elem: unknown): AnyUpdate {
  if (op !== "add" && op !== "update" && op !== "delete") throw notUnderstood("operation on a set", op);
  if (typeof elem !== "object" || elem === null || !("elem" in elem))
    return { op, elem: readExpression(elem) };
  const { val, timeout } = asObjectOf(elem.elem, ["val", "timeout"], "element");
  const key = readExpression(val);
  if (timeout === undefined) return { op, elem: key };
  return { op, elem: { elem: { val: key, timeout: asNumber(timeout, "timeout in seconds") } } };
}

/**
 * Checks the statements that a set declares for its elements.
 * @throws AppError NFT_OUTPUT for statements that may end the rule: `limit`, `quota` and `ct count`
 */
export function readPassing(statements: unknown): void {
  for (const statement of readElementStatements(statements)) {
    if (!("counter" in statement || "last" in statement))
      throw notUnderstood("statement of elements", statement);
  }
}

/** Reads the statements of an element, which run for each of its packets. */
function readElementStatements(statements: unknown): readonly ElementStatement[] {
  return asList(statements, "statements of elements").map((statement): ElementStatement => {
    const [kind, body] = asTagged(statement, "statement");
    if (kind === "counter") return { counter: null };
    if (kind === "last") return { last: null };
    if (kind === "ct count") {
      const { val, inv } = asObjectOf(body, ["val", "inv"], kind);
      if (inv === true) return { "ct count": { val: asNumber(val, kind), inv } };
    }
    if (kind === "limit") return { limit: readLimit(asObjectOf(body, LIMIT_MEMBERS, kind)) };
    throw notUnderstood("statement of elements", statement);
  });
}

const LIMIT_MEMBERS = ["rate", "per", "burst", "inv"];

/** nft omits a burst of 5 packets (1.1.3). */
function readLimit({ rate, per, burst = 5, inv }: JsonObject): RateLimit & { readonly inv: true } {
  const isKnown = per === "second" || per === "minute" || per === "hour";
  if (!isKnown || inv !== true) throw notUnderstood("limit of elements", { rate, per, burst, inv });
  return { rate: asNumber(rate, "rate"), per, burst: asNumber(burst, "burst"), inv };
}

/** Tables of the family `inet` name the family of the packets that a statement translates. */
function readNat(body: unknown, kind: string): AnyNat {
  const { family, addr, port, flags } = asObjectOf(body, ["family", "addr", "port", "flags"], kind);
  const type: ConstantType = family === "ip" ? "ipv4_addr" : family === "ip6" ? "ipv6_addr" : "other";
  return {
    ...(family !== undefined && { family: asText(family, "family") }),
    ...(addr !== undefined && { addr: readExpression(addr, type) }),
    ...(port !== undefined && { port: readExpression(port, "inet_service") }),
    ...(flags !== undefined && { flags }),
  };
}

function isSeveral(target: AnyExpression | undefined): boolean {
  return typeof target === "object" && ("range" in target || "prefix" in target || "set" in target);
}

/** nft names extensions of iptables-nft that it cannot express, without their parameters. */
function readXtables(statement: unknown, { type, name }: JsonObject): AnyStatement {
  if (XT_WITHOUT_EFFECT.has(`${type} ${name}`)) return { noEffect: {} };
  if (type === "match") return { condition: statement };
  throw notUnderstood(`xtables ${type} "${name}"`, statement);
}
