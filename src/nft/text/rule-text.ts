import { durationText } from "../../base/duration.ts";
import type {
  ElementStatement,
  Expression,
  PayloadField,
  RawPayload,
  Rule,
  Statement,
  UpdateOf,
} from "../ast/json.ts";
import { formatClassid } from "../canonical/constant.ts";
import { type ConstantType, typeOfExpression } from "../data-types.ts";
import { verdictText } from "../elements.ts";

/** A rule in canonical form as `nft list` prints it (nft 1.1.3), on one line. */
export function ruleText(rule: Rule): string {
  return rule.map(statementText).join(" ");
}

/** One statement of a rule as `nft list` prints it. */
function statementText(statement: Statement): string {
  if ("match" in statement) {
    const { op, left, right } = statement.match;
    // Omitted if implied, as nft does.
    const operator = op !== "==" && op !== "in" ? ` ${op}` : isOperation(left) ? " ==" : "";
    return `${expressionText(left)}${operator} ${expressionText(right, typeOfExpression(left))}`;
  }
  if ("mangle" in statement) {
    const { key, value } = statement.mangle;
    return `${expressionText(key)} set ${expressionText(value, typeOfExpression(key))}`;
  }
  if ("vmap" in statement)
    return `${expressionText(statement.vmap.key)} vmap ${expressionText(statement.vmap.data)}`;
  if ("map" in statement) {
    const { op, elem, data, map } = statement.map;
    return `${op} ${map} { ${elementKeyText(elem)} : ${expressionText(data, "classid")} }`;
  }
  if ("set" in statement) {
    const { op, elem, set, stmt = [] } = statement.set;
    return `${op} ${set} { ${[elementKeyText(elem), ...stmt.map(elementStatementText)].join(" ")} }`;
  }
  if ("dnat" in statement) {
    const { family, addr } = statement.dnat;
    return `dnat ${family === undefined ? "" : `${family} `}to ${expressionText(addr)}`;
  }
  if ("masquerade" in statement) return `masquerade ${statement.masquerade.flags}`;
  if ("counter" in statement) return "counter";
  if ("ct timeout" in statement) return `ct timeout set "${statement["ct timeout"]}"`;
  if ("flow" in statement) return `flow ${statement.flow.op} ${statement.flow.flowtable}`;
  if ("reject" in statement)
    return statement.reject === null ? "reject" : `reject with ${statement.reject.type}`;
  return verdictText(statement);
}

function elementKeyText(elem: UpdateOf<never>["elem"]): string {
  if (typeof elem !== "object" || !("elem" in elem)) return expressionText(elem);
  return `${expressionText(elem.elem.val)} timeout ${durationText(elem.elem.timeout)}`;
}

function elementStatementText(statement: ElementStatement): string {
  if ("counter" in statement) return "counter";
  if ("last" in statement) return "last";
  if ("ct count" in statement) return `ct count over ${statement["ct count"].val}`;
  const { rate, per, burst } = statement.limit;
  return `limit rate over ${rate}/${per} burst ${burst} packets`;
}

/** An expression as nft prints it; `type` is that of the constants in it. */
export function expressionText(expression: Expression, type: ConstantType = "other"): string {
  if (typeof expression !== "object") return constantText(expression, type);
  if ("payload" in expression) return payloadText(expression.payload);
  if ("meta" in expression)
    return expression.meta.key === "iifname" ? "iifname" : `meta ${expression.meta.key}`;
  if ("ct" in expression)
    return `ct ${expression.ct.dir === undefined ? "" : `${expression.ct.dir} `}${expression.ct.key}`;
  if ("fib" in expression) return `fib ${expression.fib.flags.join(" . ")} ${expression.fib.result}`;
  if ("concat" in expression) return expression.concat.map((part) => expressionText(part)).join(" . ");
  if ("set" in expression)
    return `{ ${inPrintedOrder(expression.set)
      .map((member) => expressionText(member, type))
      .join(", ")} }`;
  if ("prefix" in expression) return `${expression.prefix.addr}/${expression.prefix.len}`;
  if ("range" in expression) return expression.range.map((end) => expressionText(end, type)).join("-");
  if ("map" in expression)
    return `${expressionText(expression.map.key)} map ${expressionText(expression.map.data)}`;
  if ("numgen" in expression) {
    const { mode, mod, offset } = expression.numgen;
    return `numgen ${mode} mod ${mod}${offset === 0 ? "" : ` offset ${offset}`}`;
  }
  if ("jhash" in expression) {
    const { mod, seed, offset, expr } = expression.jhash;
    const seedText = `0x${seed.toString(16)}`;
    return `jhash ${expressionText(expr)} mod ${mod} seed ${seedText}${offset === 0 ? "" : ` offset ${offset}`}`;
  }
  if ("|" in expression) return operationText(expression["|"], "|");
  return "&" in expression ? operationText(expression["&"], "&") : operationText(expression["^"], "^");
}

/** Protocols, and types of addresses (RTN_LOCAL and so on in linux/rtnetlink.h). */
const NAMES_BY_NUMBER: readonly Expression[] = [
  "tcp",
  "udp",
  "sctp",
  "local",
  "broadcast",
  "anycast",
  "multicast",
];

/** nft sorts names of numbers by these numbers. */
function inPrintedOrder(members: readonly Expression[]): readonly Expression[] {
  const named = NAMES_BY_NUMBER.filter((name) => members.includes(name));
  return named.length === members.length ? named : members;
}

function payloadText(payload: PayloadField | RawPayload): string {
  return "base" in payload
    ? `@${payload.base},${payload.offset},${payload.len}`
    : `${payload.protocol} ${payload.field}`;
}

function isOperation(expression: Expression): boolean {
  return typeof expression === "object" && ("|" in expression || "&" in expression || "^" in expression);
}

function operationText([left, right]: readonly [Expression, Expression], operator: string): string {
  return `${expressionText(left)} ${operator} ${expressionText(right, typeOfExpression(left))}`;
}

function constantText(constant: string | number, type: ConstantType): string {
  if (typeof constant === "string") {
    return type === "ifname" && !constant.startsWith("@") ? `"${constant}"` : constant;
  }
  if (type === "classid") return formatClassid(constant);
  return type === "mark" ? `0x${constant.toString(16).padStart(8, "0")}` : String(constant);
}
