import type { Expression, Statement, Verdict } from "../nft/ast/json.ts";
import { verdictJson, verdictText } from "../nft/elements.ts";
import { matches } from "./match.ts";
import { addEffect, type Machine, type State, unknownToEvaluator } from "./state.ts";
import { expressionValue, lookUp, runMapStatement, type Value } from "./value.ts";

/**
 * What comes after a statement: the next one, the next rule (`break`), whatever the verdict says, or,
 * where chance decides, the next statement in several branches (`fork`: the register's possible values).
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

/** Runs one statement on the packet as it is. */
export function runStatement(machine: Machine, state: State, statement: Statement): Result {
  if ("match" in statement) return matches(machine, state, statement.match) ? CONTINUE : BREAK;
  if ("vmap" in statement) return runVerdictMap(machine, state, statement.vmap);
  if ("mangle" in statement) return runMangle(machine, state, statement.mangle);
  if ("map" in statement) return runMapStatement(machine, state, statement.map) ? CONTINUE : BREAK;
  if ("dnat" in statement) return runDnat(machine, state, statement.dnat.addr);
  if ("masquerade" in statement) return runMasquerade(state);
  if ("reject" in statement) {
    addEffect(state, { kind: "reject" });
    return { kind: "refuse" };
  }
  return runVerdict(state, statement);
}

function runVerdict(state: State, verdict: Verdict): Result {
  addEffect(state, { kind: "verdict", verdict: verdictText(verdict) });
  return { kind: "verdict", verdict };
}

function runVerdictMap(
  machine: Machine,
  state: State,
  { key, data }: { readonly key: Expression; readonly data: Expression },
): Result {
  if (typeof data !== "string") throw unknownToEvaluator("an anonymous verdict map", data);
  const found = lookUp(machine, state, data, expressionValue(machine, state, key));
  return found === undefined ? BREAK : { kind: "verdict", verdict: verdictJson(found) };
}

function runMangle(
  machine: Machine,
  state: State,
  { key, value }: { readonly key: Expression; readonly value: Expression },
): Result {
  const register = typeof key === "object" && "meta" in key ? key.meta.key : undefined;
  if (register !== "mark" && register !== "priority") throw unknownToEvaluator("an assignment to this", key);
  if (typeof value === "object" && "numgen" in value) {
    if (register !== "priority") throw unknownToEvaluator("a random mark", value);
    return { kind: "fork", choices: value.numgen.mod, offset: value.numgen.offset };
  }
  const number = expressionValue(machine, state, value);
  if (number === undefined) return BREAK;
  assign(state, register, number);
  return CONTINUE;
}

function assign(state: State, register: "mark" | "priority", value: Value): void {
  if (typeof value !== "number") throw unknownToEvaluator("an assignment of text", value);
  state[register] = value;
  addEffect(state, { kind: "assigned", register, value });
}

/** The rest of a statement whose value chance has chosen. */
export function assignRandom(state: State, value: number, choices: number): void {
  state.priority = value;
  addEffect(state, { kind: "random", value, choices });
}

/**
 * A dnat is also an accept of its chain, and the last one of its hook. It leaves no trace in the connection's status
 * where it changes nothing. Source: net/netfilter/nft_nat.c and nf_nat_core.c, Linux 6.18.
 */
function runDnat(machine: Machine, state: State, addr: Expression): Result {
  const target = expressionValue(machine, state, addr);
  if (target === undefined) return BREAK;
  const [address = "", port] = String(target).split(" . ");
  const to = { address, port: port === undefined ? state.port : Number(port) };
  state.translated = to.address !== state.destination || to.port !== state.port;
  state.destinationNatDone = true;
  state.destination = to.address;
  state.port = to.port;
  addEffect(state, { kind: "dnat", to });
  return ACCEPT;
}

function runMasquerade(state: State): Result {
  state.masqueraded = true;
  state.sourceNatDone = true;
  addEffect(state, { kind: "masquerade" });
  return ACCEPT;
}
