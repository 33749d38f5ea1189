import { addressNumber } from "../base/address-interval.ts";
import type { AnyExpression, AnyStatement, ContentOf } from "../nft/ast/any-table.ts";
import type { Operator } from "../nft/ast/json.ts";
import { addressInterval } from "../nft/canonical/address.ts";
import { bitsOf, TCP_FLAGS } from "../nft/canonical/constant.ts";
import { addEffect, type Branch, UNKNOWN, type Value } from "./branch.ts";
import { expressionValue } from "./expression-value.ts";
import { NO_ROUTE } from "./packet-fields.ts";
import { elementValue, setOf } from "./set-lookup.ts";

/** The result of a comparison. */
export type Truth = boolean | typeof UNKNOWN;

/** Whether a comparison matches the current packet; `UNKNOWN` if that is not known. */
export function matches(branch: Branch, { op, left, right }: ContentOf<AnyStatement, "match">): Truth {
  if (typeof right === "object" && "anonymous" in right) {
    const value = expressionValue(branch, left);
    if (value === undefined) return false;
    return value === UNKNOWN ? UNKNOWN : negatedFor(op, isElement(branch, right, String(value)));
  }
  // The whole status (`==`, `!=`) has bits that are not known here.
  if (isStatus(left)) return op === "in" ? statusMatches(branch, right) : UNKNOWN;
  if (op === "==" && typeof left === "object" && "&" in left && isStatus(left["&"][0]))
    return statusEquals(branch, left["&"][1], right);
  const value = expressionValue(branch, left);
  if (value === undefined) return false;
  if (op === "<" || op === ">" || op === "<=" || op === ">=") return compares(value, op, right);
  if (value === UNKNOWN) return UNKNOWN;
  if (op === "in" && typeof value === "number") return hasBits(branch, value, right);
  return negatedFor(op, isIn(branch, value, right));
}

function negatedFor(op: Operator, truth: Truth): Truth {
  return op !== "!=" || truth === UNKNOWN ? truth : !truth;
}

function isStatus(left: AnyExpression): boolean {
  return typeof left === "object" && "ct" in left && left.ct.key === "status";
}

/** Status bits that are never set for a new connection before nat chains. */
const TRANSLATIONS: Readonly<Record<string, (branch: Branch) => boolean>> = {
  dnat: ({ translated }) => translated,
  snat: ({ masqueraded }) => masqueraded,
  // The first packet has not passed all hooks yet, and has no answer.
  confirmed: () => false,
  assured: () => false,
};

/** Whether just those bits of a mask are set in the status that the right side names. */
function statusEquals(branch: Branch, mask: AnyExpression, right: AnyExpression): Truth {
  if (typeof right === "number" && right !== 0) return UNKNOWN;
  const wanted = bitsOf(right);
  const differences = bitsOf(mask).map((bit): Truth => {
    const isSet = statusMatches(branch, bit);
    return isSet === UNKNOWN ? UNKNOWN : isSet !== wanted.includes(bit);
  });
  return negatedFor("!=", anyOf(differences));
}

/** Whether a connection's status has one of some bits. Only a few bits are known here. */
function statusMatches(branch: Branch, right: AnyExpression): Truth {
  const { packet } = branch.evaluation;
  const names = typeof right === "object" && "set" in right ? right.set : [right];
  const isNew = packet.conntrack !== "established";
  const truths = names.map((name): Truth => {
    if (packet.answers !== undefined) {
      const { isTranslated, isMasqueraded } = packet.answers;
      // The packet is the first answer.
      if (name === "assured") return false;
      return name === "dnat" ? isTranslated : name === "snat" ? isMasqueraded : UNKNOWN;
    }
    if (!isNew) {
      if (name === "assured") return packet.protocol === "tcp" || UNKNOWN;
      return name === "dnat" && packet.endpoint !== undefined ? true : UNKNOWN;
    }
    const bit = typeof name === "string" ? TRANSLATIONS[name] : undefined;
    return bit === undefined ? UNKNOWN : bit(branch);
  });
  return anyOf(truths);
}

function compares(value: Value | typeof UNKNOWN, op: Operator, right: AnyExpression): Truth {
  if (typeof value !== "number" || typeof right !== "number") return UNKNOWN;
  if (op === "<") return value < right;
  if (op === ">") return value > right;
  return op === "<=" ? value <= right : value >= right;
}

/** `tcp flags syn`: some of the bits. */
function hasBits(branch: Branch, value: number, right: AnyExpression): Truth {
  const truths = bitsOf(right).map((name): Truth => {
    const known = expressionValue(branch, name);
    const bit = typeof known === "string" ? TCP_FLAGS[known] : known;
    return typeof bit === "number" ? (value & bit) !== 0 : UNKNOWN;
  });
  return anyOf(truths);
}

/** Whether one of several matches; unknown if none does and one is unknown. */
function anyOf(truths: readonly Truth[]): Truth {
  return truths.includes(true) ? true : truths.includes(UNKNOWN) ? UNKNOWN : false;
}

function isIn(branch: Branch, value: Value, right: AnyExpression): Truth {
  if (typeof right === "number") return typeof value === "number" ? value === right : UNKNOWN;
  if (typeof right === "string") {
    if (right.startsWith("@")) return isElement(branch, right, String(value));
    return right.endsWith("*") ? String(value).startsWith(right.slice(0, -1)) : value === right;
  }
  if ("exists" in right) return (value !== NO_ROUTE) === right.exists;
  if ("set" in right) return anyOf(right.set.map((member) => isIn(branch, value, member)));
  if ("prefix" in right || "range" in right) return isBetween(value, right);
  const other = expressionValue(branch, right);
  return other === undefined ? false : other === UNKNOWN ? UNKNOWN : value === other;
}

/** Records only found elements: a packet is in few of the sets. */
function isElement(branch: Branch, reference: AnyExpression, key: string): Truth {
  const set = setOf(branch, reference);
  if (set === undefined) return UNKNOWN;
  const value = elementValue(branch, set, key);
  const { name } = set.spec;
  if (value !== undefined && name !== "") addEffect(branch, { kind: "found", set: name, key, value });
  return value !== undefined;
}

function isBetween(value: Value, interval: AnyExpression): Truth {
  if (typeof value === "number") {
    if (typeof interval !== "object" || !("range" in interval)) return UNKNOWN;
    const [first, last] = interval.range.map(Number) as [number, number];
    return Number.isNaN(first + last) ? UNKNOWN : first <= value && value <= last;
  }
  const family = value.includes(":") ? "ip6" : "ip";
  if (family === "ip" && !/^[\d.]+$/.test(value)) return UNKNOWN;
  const { first, last } = addressInterval(family, interval);
  const address = addressNumber(family, value);
  return first <= address && address <= last;
}
