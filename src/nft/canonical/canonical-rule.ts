import { AppError } from "../../base/errors.ts";
import type {
  AnyExpression,
  AnyJhash,
  AnyNat,
  AnyStatement,
  ContentOf,
  NotUnderstood,
} from "../ast/any-table.ts";
import type { Expression, Rule, Statement } from "../ast/json.ts";
import { typeOfExpression } from "../data-types.ts";
import { parseClassid, TCP_FLAGS } from "./constant.ts";
import { readStatement } from "./rule.ts";
import { asFlags, asList, asObjectOf, asText, notUnderstood } from "./shape.ts";

/**
 * Brings a rule from any nft's JSON to its canonical form, which we also write: equal rules give the same
 * `JSON.stringify`. Rules of any software are read in this form, except for a few statements.
 * @throws AppError NFT_OUTPUT with the part that is not understood, or a statement that our rules never have
 */
export function canonicalRule(rule: unknown): Rule {
  return asList(rule, "rule").map((listed) => {
    const statement = canonicalStatement(readStatement(listed));
    refuseForeign(statement, listed);
    // The kinds that only other software has are refused, and the others have the same types.
    return statement as Statement;
  });
}

function canonicalStatement(statement: AnyStatement): AnyStatement {
  if ("match" in statement) return { match: canonicalMatch(statement.match) };
  if ("map" in statement) {
    const { data } = statement.map;
    // A constant is a classid here, as the dynamic maps hold only endpoint ids.
    return typeof data === "object" ? statement : { map: { ...statement.map, data: parseClassid(data) } };
  }
  if ("masquerade" in statement) {
    const { flags } = asObjectOf(statement.masquerade, ["flags"], "masquerade");
    return { masquerade: { flags: asFlags(flags, "masquerade flags").join(",") } };
  }
  if ("reject" in statement) return { reject: canonicalReject(statement.reject) };
  if ("noEffect" in statement) {
    // Of the fields that affect no path, our rules may set DSCP.
    const { mangle } = statement.noEffect;
    return mangle !== undefined && typeOfExpression(mangle.key) === "dscp" ? { mangle } : statement;
  }
  return statement;
}

type Match = ContentOf<AnyStatement, "match">;

function canonicalMatch({ op, left, right }: Match): Match {
  // Conntrack's state and status are sets of bits. nft writes plain comparisons with them as `in`.
  const isBitmask = typeof left === "object" && "ct" in left && /^(state|status)$/.test(left.ct.key);
  // nft lists TCP's flags by name. In our rules, a flag is always the whole right side.
  const isFlag = typeOfExpression(left) === "tcp_flag";
  const flag = isFlag ? Object.keys(TCP_FLAGS).find((name) => TCP_FLAGS[name] === right) : undefined;
  return { op: op === "==" && isBitmask ? "in" : op, left, right: flag ?? right };
}

/** nft lists a plain `reject` with the type and code of the family, and a reset with its type. */
function canonicalReject(body: unknown): null | { readonly type: "tcp reset" } {
  if (body === null) return null;
  const { type, expr } = asObjectOf(body, ["type", "expr"], "reject");
  if (type === "tcp reset" && expr === undefined) return { type };
  const isDefault = /^icmp(v6|x)?$/.test(asText(type, "reject type")) && expr === "port-unreachable";
  if (!isDefault) throw notUnderstood("kind of reject", body);
  return null;
}

/**
 * Throws if a statement has, at any depth, something not understood, or something that our rules never have.
 */
function refuseForeign(part: unknown, listed: unknown): void {
  if (typeof part !== "object" || part === null) return;
  if ("notUnderstood" in part) throw errorOf(part);
  if (isForeign(part)) {
    // A statement or a set that was read is no longer nft's JSON: the error shows what nft listed.
    throw notUnderstood("what our rules never have", "jhash" in part || "exists" in part ? part : listed);
  }
  for (const inner of Object.values(part)) refuseForeign(inner, listed);
}

function errorOf({ notUnderstood: part, error }: NotUnderstood): AppError {
  return error instanceof AppError ? error : notUnderstood("a part", part);
}

type KindOf<Node> = Node extends object ? keyof Node : never;
type OurKind = KindOf<Statement | Expression>;
type ForeignKind = Exclude<KindOf<AnyStatement | AnyExpression>, OurKind | keyof NotUnderstood>;

/** All kinds of statements and expressions that only other software has. */
const FOREIGN: Readonly<Record<ForeignKind, true>> = {
  noEffect: true,
  condition: true,
  snat: true,
  anonymous: true,
  exists: true,
};

function isForeign(part: object): boolean {
  const { dnat, jhash, set } = part as {
    readonly dnat?: AnyNat;
    readonly jhash?: AnyJhash;
    readonly set?: unknown;
  };
  const isSeedless = jhash !== undefined && jhash.seed === undefined;
  const isPlain = dnat?.addr !== undefined && dnat.port === undefined && dnat.flags === undefined;
  const isEmpty = Array.isArray(set) && set.length === 0;
  const isOther = isSeedless || isEmpty || (dnat !== undefined && !isPlain);
  return isOther || Object.keys(FOREIGN).some((kind) => kind in part);
}
