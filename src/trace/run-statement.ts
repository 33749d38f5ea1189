import type { Expression, Statement, Verdict } from "../nft/ast/json.ts";
import { verdictJson, verdictText } from "../nft/elements.ts";
import { addEffect, type Branch, type Evaluation, notEvaluable } from "./branch.ts";
import { expressionValue, lookUp, runMapStatement, type Value } from "./expression-value.ts";
import { matches } from "./matches.ts";

/**
 * How evaluation continues after a statement: with the next statement, the next rule (`break`), a verdict, or, after
 * a random choice, with the next statement in several branches (`fork`, one for each value of the register).
 */
export type Result =
  | { readonly kind: "continue" }
  | { readonly kind: "break" }
  | { readonly kind: "verdict"; readonly verdict: Verdict }
  | { readonly kind: "refuse" }
  | { readonly kind: "fork"; readonly choices: number; readonly offset: number };

const CONTINUE: Result = { kind: "continue" };
const BREAK: Result = { kind: "break" };
const ACCEPT: Result = { kind: "verdict", verdict: { accept: null } };

/**
 * Runs one statement on the current packet.
 * @throws AppError NFT_OUTPUT for a statement that the evaluator does not know
 */
export function runStatement(evaluation: Evaluation, branch: Branch, statement: Statement): Result {
  if ("match" in statement) return matches(evaluation, branch, statement.match) ? CONTINUE : BREAK;
  if ("vmap" in statement) return runVerdictMap(evaluation, branch, statement.vmap);
  if ("mangle" in statement) return runMangle(evaluation, branch, statement.mangle);
  if ("map" in statement) return runMapStatement(evaluation, branch, statement.map) ? CONTINUE : BREAK;
  if ("dnat" in statement) return runDnat(evaluation, branch, statement.dnat.addr);
  if ("masquerade" in statement) return runMasquerade(branch);
  if ("reject" in statement) {
    addEffect(branch, { kind: "reject" });
    return { kind: "refuse" };
  }
  return runVerdict(branch, statement);
}

function runVerdict(branch: Branch, verdict: Verdict): Result {
  addEffect(branch, { kind: "verdict", verdict: verdictText(verdict) });
  return { kind: "verdict", verdict };
}

function runVerdictMap(
  evaluation: Evaluation,
  branch: Branch,
  { key, data }: { readonly key: Expression; readonly data: Expression },
): Result {
  if (typeof data !== "string") throw notEvaluable("an anonymous verdict map", data);
  const found = lookUp(evaluation, branch, data, expressionValue(evaluation, branch, key));
  return found === undefined ? BREAK : { kind: "verdict", verdict: verdictJson(found) };
}

function runMangle(
  evaluation: Evaluation,
  branch: Branch,
  { key, value }: { readonly key: Expression; readonly value: Expression },
): Result {
  const register = typeof key === "object" && "meta" in key ? key.meta.key : undefined;
  if (register !== "mark" && register !== "priority") throw notEvaluable("an assignment to this", key);
  if (typeof value === "object" && "numgen" in value) {
    if (register !== "priority") throw notEvaluable("a random mark", value);
    return { kind: "fork", choices: value.numgen.mod, offset: value.numgen.offset };
  }
  const number = expressionValue(evaluation, branch, value);
  if (number === undefined) return BREAK;
  assign(branch, register, number);
  return CONTINUE;
}

function assign(branch: Branch, register: "mark" | "priority", value: Value): void {
  if (typeof value !== "number") throw notEvaluable("an assignment of text", value);
  branch[register] = value;
  addEffect(branch, { kind: "assigned", register, value });
}

/** Completes an assignment of a random number, in the branch for one of its values. */
export function assignRandom(branch: Branch, value: number, choices: number): void {
  branch.priority = value;
  addEffect(branch, { kind: "random", value, choices });
}

/**
 * Translates the destination. This also accepts the packet, and skips the hook's later nat chains. The connection
 * counts as translated only if address or port change. Source: net/netfilter/nft_nat.c and nf_nat_core.c, Linux 6.18.
 */
function runDnat(evaluation: Evaluation, branch: Branch, addr: Expression): Result {
  const target = expressionValue(evaluation, branch, addr);
  if (target === undefined) return BREAK;
  const [address = "", port] = String(target).split(" . ");
  const to = { address, port: port === undefined ? branch.port : Number(port) };
  branch.translated = to.address !== branch.destination || to.port !== branch.port;
  branch.destinationNatDone = true;
  branch.destination = to.address;
  branch.port = to.port;
  addEffect(branch, { kind: "dnat", to });
  return ACCEPT;
}

function runMasquerade(branch: Branch): Result {
  branch.masqueraded = true;
  branch.sourceNatDone = true;
  addEffect(branch, { kind: "masquerade" });
  return ACCEPT;
}
