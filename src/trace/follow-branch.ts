import type { AnyChain, AnyExpression, AnyJhash, AnyStatement } from "../nft/ast/any-table.ts";
import type { Verdict } from "../nft/ast/json.ts";
import { addEffect, addStep, type Branch, currentPlace, currentRule } from "./branch.ts";
import { assume, dropIrrelevantAssumptions, endBranch } from "./end-branch.ts";
import { isRandomHash } from "./expression-value.ts";
import type { Packet } from "./packet.ts";
import { meetsNat, route, translateAgain } from "./route.ts";
import { isPassive, type Result, runStatement } from "./run-statement.ts";

/** Follows one branch until it ends or forks, and adds its outcome or its branches to the evaluation. */
export function followBranch(branch: Branch): void {
  while (true) {
    const rule = currentRule(branch);
    if (branch.chain === undefined) {
      if (!enterNextChain(branch)) return;
    } else if (rule === undefined) {
      if (!leaveChain(branch)) return;
    } else {
      const statement = rule[branch.statement];
      if (statement === undefined) nextRule(branch, true);
      else if (!run(branch, statement)) return;
    }
  }
}

/** Runs a statement. @returns false if the branch ends here */
function run(branch: Branch, statement: AnyStatement): boolean {
  if (branch.undecided && !isPassive(statement)) {
    skipUndecided(branch, statement);
    return true;
  }
  const random =
    branch.random === undefined ? randomNumberOf(statement, branch.evaluation.packet) : undefined;
  if (random !== undefined) {
    fork(branch, random);
    return false;
  }
  return take(branch, statement, runStatement(branch, statement));
}

/** Continues after a statement. @returns false if the branch ends here */
function take(branch: Branch, statement: AnyStatement, result: Result): boolean {
  if (typeof result === "object") return takeVerdict(branch, statement, result);
  if (result === "refuse") {
    nextRule(branch, true);
    return endBranch(branch, { kind: "refused" });
  }
  if (result === "break") nextRule(branch, false);
  else if (result === "not-understood") skipUndecided(branch, statement);
  else {
    branch.undecided ||= result === "undecided";
    branch.statement++;
    branch.random = undefined;
  }
  return true;
}

/** Assumes and records that the rule does not match. */
function skipUndecided(branch: Branch, statement: AnyStatement): void {
  assume(branch, statement);
  nextRule(branch, false);
}

function takeVerdict(branch: Branch, statement: AnyStatement, verdict: Verdict): boolean {
  if ("jump" in verdict || "goto" in verdict) {
    const isJump = "jump" in verdict;
    const { target } = isJump ? verdict.jump : verdict.goto;
    const chain = branch.table?.chains.get(target);
    if (chain === undefined || branch.chain === undefined) skipUndecided(branch, statement);
    else {
      nextRule(branch, true);
      if (isJump) branch.caller = { chain: branch.chain, rule: branch.rule, caller: branch.caller };
      enter(branch, chain, 0);
    }
    return true;
  }
  nextRule(branch, true);
  if ("drop" in verdict) return endBranch(branch, { kind: "dropped" });
  if ("return" in verdict) return leaveChain(branch);
  // Only accept is left: any other verdict was refused when the rule or map was read.
  leaveBase(branch);
  return true;
}

/** Makes one branch for each value of a random number, all equally likely. */
function fork(branch: Branch, { mod: choices, offset }: RandomNumber): void {
  for (let choice = choices - 1; choice >= 0; choice--) {
    const value = offset + choice;
    const next: Branch = { ...branch, probability: branch.probability / choices, random: value };
    addEffect(next, { kind: "random", value, choices });
    branch.evaluation.pending.push(next);
  }
}

function nextRule(branch: Branch, completed: boolean): void {
  const { effects } = branch;
  if (effects.length > 0) addStep(branch, { kind: "rule", ...currentPlace(branch), effects, completed });
  branch.effects = [];
  branch.undecided = false;
  branch.random = undefined;
  branch.rule++;
  branch.statement = 0;
}

function enter(branch: Branch, chain: AnyChain, rule: number): void {
  branch.chain = chain;
  branch.rule = rule;
  branch.statement = 0;
}

/** Returns to the calling chain, or applies the policy of a base chain. @returns false if the policy drops */
function leaveChain(branch: Branch): boolean {
  const { caller, hook } = branch;
  if (caller !== undefined) {
    branch.caller = caller.caller;
    enter(branch, caller.chain, caller.rule);
    return true;
  }
  const hooked = branch.evaluation.baseChains[hook][branch.base];
  if (hooked?.chain.base?.policy === "drop") {
    const { family, name } = hooked.table;
    addStep(branch, { kind: "policy", hook, table: { family, name }, chain: hooked.chain.name });
    return endBranch(branch, { kind: "dropped" });
  }
  leaveBase(branch);
  return true;
}

function leaveBase(branch: Branch): void {
  dropIrrelevantAssumptions(branch);
  branch.table = undefined;
  branch.chain = undefined;
  branch.caller = undefined;
  branch.base++;
}

/** Enters the hook's next base chain, or the next hook. @returns false if the packet has passed all hooks */
function enterNextChain(branch: Branch): boolean {
  if (branch.base === 0) addStep(branch, { kind: "hook", hook: branch.hook });
  const hooked = branch.evaluation.baseChains[branch.hook][branch.base];
  if (hooked === undefined) return route(branch);
  if (hooked.chain.base?.type === "nat" && !meetsNat(branch)) {
    translateAgain(branch);
    branch.base++;
  } else {
    branch.table = hooked.table;
    enter(branch, hooked.chain, 0);
  }
  return true;
}

/** The values of a `numgen`, or of a hash over unknown facts: `mod` of them, from `offset` on. */
type RandomNumber = Pick<AnyJhash, "mod" | "offset">;

/** Maximum number of values to follow one by one. */
const MOST_CHOICES = 65_536;

/**
 * The random numbers of statements, for clients that were given and for assumed ones, whose hash is not
 * known. Without this cache, an evaluation takes a fifth longer.
 */
const known = {
  given: new WeakMap<AnyStatement, RandomNumber | null>(),
  assumed: new WeakMap<AnyStatement, RandomNumber | null>(),
};

/** Returns the random number in a statement; undefined if there are none or several. */
function randomNumberOf(statement: AnyStatement, packet: Packet): RandomNumber | undefined {
  const ofClients = known[packet.from.isAssumed ? "assumed" : "given"];
  let found = ofClients.get(statement);
  if (found === undefined) {
    const expressions = expressionsOf(statement);
    const [first, second] = expressions.flatMap((expression) => randomNumbersIn(expression, packet));
    found = first === undefined || second !== undefined || first.mod > MOST_CHOICES ? null : first;
    ofClients.set(statement, found);
  }
  return found ?? undefined;
}

function expressionsOf(statement: AnyStatement): readonly AnyExpression[] {
  if ("vmap" in statement) return [statement.vmap.key];
  if ("mangle" in statement) return [statement.mangle.value];
  if ("match" in statement) return [statement.match.left];
  if ("snat" in statement) return [statement.snat.addr ?? ""];
  if ("dnat" in statement) return [statement.dnat.addr ?? "", statement.dnat.port ?? ""];
  return [];
}

function randomNumbersIn(expression: AnyExpression, packet: Packet): RandomNumber[] {
  if (typeof expression !== "object") return [];
  if ("numgen" in expression) return [expression.numgen];
  if ("jhash" in expression) return isRandomHash(expression.jhash, packet) ? [expression.jhash] : [];
  if ("map" in expression) return randomNumbersIn(expression.map.key, packet);
  return "concat" in expression ? expression.concat.flatMap((part) => randomNumbersIn(part, packet)) : [];
}
