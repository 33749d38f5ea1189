import type { Verdict } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { addStep, type Branch, currentRule, type Evaluation, notEvaluable, stepsOf } from "./branch.ts";
import type { Hook, Outcome } from "./outcome.ts";
import { isLocal, isLoopback } from "./packet.ts";
import { assignRandom, type Result, runStatement } from "./run-statement.ts";

/**
 * Follows one branch until it ends or forks, and adds its outcome or its branches to the evaluation.
 * @throws AppError NFT_OUTPUT for a part of a rule that the evaluator does not know
 */
export function followBranch(evaluation: Evaluation, branch: Branch): void {
  while (true) {
    const rule = currentRule(branch);
    if (branch.chain === undefined) {
      if (!enterNextChain(evaluation, branch)) return;
    } else if (rule === undefined) {
      if (!leaveChain(evaluation, branch)) return;
    } else {
      const statement = rule[branch.statement];
      if (statement === undefined) nextRule(branch, true);
      else if (!take(evaluation, branch, runStatement(evaluation, branch, statement))) return;
    }
  }
}

/** Continues after a statement. Returns false when the branch ends here. */
function take(evaluation: Evaluation, branch: Branch, result: Result): boolean {
  switch (result.kind) {
    case "continue":
      branch.statement++;
      return true;
    case "break":
      nextRule(branch, false);
      return true;
    case "fork":
      fork(evaluation, branch, result.choices, result.offset);
      return false;
    case "refuse":
      nextRule(branch, true);
      return end(evaluation, branch, { kind: "refused" });
    case "verdict":
      return takeVerdict(evaluation, branch, result.verdict);
  }
}

function takeVerdict(evaluation: Evaluation, branch: Branch, verdict: Verdict): boolean {
  nextRule(branch, true);
  if ("drop" in verdict) return end(evaluation, branch, { kind: "dropped" });
  if ("accept" in verdict) {
    leaveBase(branch);
    return true;
  }
  if ("return" in verdict) return leaveChain(evaluation, branch);
  const isJump = "jump" in verdict;
  const { target } = isJump ? verdict.jump : verdict.goto;
  const chain = evaluation.table?.chains.get(target);
  if (chain === undefined || branch.chain === undefined) throw notEvaluable(`the chain ${target}`, verdict);
  if (isJump) branch.caller = { chain: branch.chain, rule: branch.rule, caller: branch.caller };
  enter(branch, chain, 0);
  return true;
}

function fork(evaluation: Evaluation, branch: Branch, choices: number, offset: number): void {
  for (let choice = choices - 1; choice >= 0; choice--) {
    const next: Branch = { ...branch, probability: branch.probability / choices, statement: branch.statement + 1 };
    assignRandom(next, offset + choice, choices);
    evaluation.pending.push(next);
  }
}

function nextRule(branch: Branch, completed: boolean): void {
  const rule = currentRule(branch);
  if (rule !== undefined && branch.chain !== undefined && branch.effects.length > 0) {
    const { hook, chain, effects } = branch;
    addStep(branch, { kind: "rule", hook, chain: chain.name, index: branch.rule, rule, effects, completed });
  }
  branch.effects = [];
  branch.rule++;
  branch.statement = 0;
}

function enter(branch: Branch, chain: Chain, rule: number): void {
  branch.chain = chain;
  branch.rule = rule;
  branch.statement = 0;
}

/** Returns to the calling chain, or applies the policy of a base chain. Returns false when the policy drops. */
function leaveChain(evaluation: Evaluation, branch: Branch): boolean {
  const { caller } = branch;
  if (caller !== undefined) {
    branch.caller = caller.caller;
    enter(branch, caller.chain, caller.rule);
    return true;
  }
  const base = evaluation.baseChains[branch.hook][branch.base];
  if (base?.base?.policy === "drop") {
    addStep(branch, { kind: "policy", hook: branch.hook, chain: base.name, policy: "drop" });
    return end(evaluation, branch, { kind: "dropped" });
  }
  leaveBase(branch);
  return true;
}

function leaveBase(branch: Branch): void {
  branch.chain = undefined;
  branch.caller = undefined;
  branch.base++;
}

/** Enters the hook's next base chain, or the next hook. Returns false when the packet has passed all hooks. */
function enterNextChain(evaluation: Evaluation, branch: Branch): boolean {
  if (branch.base === 0) addStep(branch, { kind: "hook", hook: branch.hook });
  const base = evaluation.baseChains[branch.hook][branch.base];
  if (base === undefined) return route(evaluation, branch);
  if (base.base?.type === "nat" && !meetsNat(evaluation, branch)) branch.base++;
  else enter(branch, base, 0);
  return true;
}

function meetsNat(evaluation: Evaluation, branch: Branch): boolean {
  if (evaluation.packet.conntrack === "established") return false;
  return branch.hook === "postrouting" ? !branch.sourceNatDone : !branch.destinationNatDone;
}

/** Chooses the next hook. Source: https://wiki.nftables.org/wiki-nftables/index.php/Netfilter_hooks */
function route(evaluation: Evaluation, branch: Branch): boolean {
  const local = isLocal(evaluation.host, branch.destination);
  switch (branch.hook) {
    case "prerouting":
      branch.destinationNatDone = true;
      if (isLoopback(branch.destination) && branch.iifname !== "lo") {
        addStep(branch, { kind: "martian", address: branch.destination });
        return end(evaluation, branch, { kind: "dropped" });
      }
      // ip_forward() sets the priority from the type of service, ip6_forward() does not.
      if (!local && evaluation.family === "ip") branch.priority = 0;
      return goTo(branch, local ? "input" : "forward");
    case "output":
      branch.destinationNatDone = true;
      return goTo(branch, "postrouting");
    case "forward":
      return goTo(branch, "postrouting");
    case "postrouting":
      branch.sourceNatDone = true;
      if (evaluation.packet.from.at !== "node" || !local) return deliver(evaluation, branch, false);
      branch.iifname = "lo";
      return goTo(branch, "prerouting");
    case "input":
      return deliver(evaluation, branch, true);
  }
}

function goTo(branch: Branch, hook: Hook): boolean {
  branch.hook = hook;
  branch.base = 0;
  return true;
}

function deliver(evaluation: Evaluation, branch: Branch, local: boolean): boolean {
  return end(evaluation, branch, {
    kind: "delivered",
    to: { address: branch.destination, port: branch.port },
    local,
    translated: branch.translated,
    source: branch.masqueraded ? "masqueraded" : "kept",
    mark: branch.mark,
    priority: branch.priority,
  });
}

type Ending<T> = T extends unknown ? Omit<T, "probability" | "steps" | "updates"> : never;

function end(evaluation: Evaluation, branch: Branch, ending: Ending<Outcome>): false {
  const { probability, updates } = branch;
  evaluation.outcomes.push({ ...ending, probability, updates, steps: stepsOf(branch.steps) });
  return false;
}
