import type { Verdict } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import type { Hook, Outcome } from "./outcome.ts";
import { isLocal, isLoopback } from "./packet.ts";
import { addStep, currentRule, type Machine, type State, stepsOf, unknownToEvaluator } from "./state.ts";
import { assignRandom, type Result, runStatement } from "./statement.ts";

/** Follows one branch until it ends or forks; its outcome, or its branches, are left in the machine. */
export function follow(machine: Machine, state: State): void {
  while (true) {
    const rule = currentRule(state);
    if (state.chain === undefined) {
      if (!enterNextChain(machine, state)) return;
    } else if (rule === undefined) {
      if (!leaveChain(machine, state)) return;
    } else {
      const statement = rule[state.statement];
      if (statement === undefined) nextRule(state, true);
      else if (!take(machine, state, runStatement(machine, state, statement))) return;
    }
  }
}

/** Goes on after a statement; false when the branch ends here. */
function take(machine: Machine, state: State, result: Result): boolean {
  switch (result.kind) {
    case "continue":
      state.statement++;
      return true;
    case "break":
      nextRule(state, false);
      return true;
    case "fork":
      fork(machine, state, result.choices, result.offset);
      return false;
    case "refuse":
      nextRule(state, true);
      return end(machine, state, { kind: "refused" });
    case "verdict":
      return takeVerdict(machine, state, result.verdict);
  }
}

function takeVerdict(machine: Machine, state: State, verdict: Verdict): boolean {
  nextRule(state, true);
  if ("drop" in verdict) return end(machine, state, { kind: "dropped" });
  if ("accept" in verdict) {
    leaveBase(state);
    return true;
  }
  if ("return" in verdict) return leaveChain(machine, state);
  const isJump = "jump" in verdict;
  const { target } = isJump ? verdict.jump : verdict.goto;
  const chain = machine.table?.chains.get(target);
  if (chain === undefined || state.chain === undefined) throw unknownToEvaluator(`the chain ${target}`, verdict);
  if (isJump) state.caller = { chain: state.chain, rule: state.rule, caller: state.caller };
  enter(state, chain, 0);
  return true;
}

function fork(machine: Machine, state: State, choices: number, offset: number): void {
  for (let choice = choices - 1; choice >= 0; choice--) {
    const branch: State = { ...state, probability: state.probability / choices, statement: state.statement + 1 };
    assignRandom(branch, offset + choice, choices);
    machine.pending.push(branch);
  }
}

function nextRule(state: State, completed: boolean): void {
  const rule = currentRule(state);
  if (rule !== undefined && state.chain !== undefined && state.effects.length > 0) {
    const { hook, chain, effects } = state;
    addStep(state, { kind: "rule", hook, chain: chain.name, index: state.rule, rule, effects, completed });
  }
  state.effects = [];
  state.rule++;
  state.statement = 0;
}

function enter(state: State, chain: Chain, rule: number): void {
  state.chain = chain;
  state.rule = rule;
  state.statement = 0;
}

/** At a chain's end or a `return`: back to the caller, or, in a base chain, its policy. False when that drops. */
function leaveChain(machine: Machine, state: State): boolean {
  const { caller } = state;
  if (caller !== undefined) {
    state.caller = caller.caller;
    enter(state, caller.chain, caller.rule);
    return true;
  }
  const base = machine.baseChains[state.hook][state.base];
  if (base?.base?.policy === "drop") {
    addStep(state, { kind: "policy", hook: state.hook, chain: base.name, policy: "drop" });
    return end(machine, state, { kind: "dropped" });
  }
  leaveBase(state);
  return true;
}

function leaveBase(state: State): void {
  state.chain = undefined;
  state.caller = undefined;
  state.base++;
}

/** Goes to the hook's next base chain, or on to the next hook; false when the packet's way is at its end. */
function enterNextChain(machine: Machine, state: State): boolean {
  if (state.base === 0) addStep(state, { kind: "hook", hook: state.hook });
  const base = machine.baseChains[state.hook][state.base];
  if (base === undefined) return route(machine, state);
  if (base.base?.type === "nat" && !meetsNat(machine, state)) state.base++;
  else enter(state, base, 0);
  return true;
}

function meetsNat(machine: Machine, state: State): boolean {
  if (machine.packet.conntrack === "established") return false;
  return state.hook === "postrouting" ? !state.sourceNatDone : !state.destinationNatDone;
}

/** The way through the hooks. Source: https://wiki.nftables.org/wiki-nftables/index.php/Netfilter_hooks */
function route(machine: Machine, state: State): boolean {
  const local = isLocal(machine.host, state.destination);
  switch (state.hook) {
    case "prerouting":
      state.destinationNatDone = true;
      if (isLoopback(state.destination) && state.iifname !== "lo") {
        addStep(state, { kind: "martian", address: state.destination });
        return end(machine, state, { kind: "dropped" });
      }
      // ip_forward() sets the priority from the type of service, ip6_forward() does not.
      if (!local && machine.family === "ip") state.priority = 0;
      return goTo(state, local ? "input" : "forward");
    case "output":
      state.destinationNatDone = true;
      return goTo(state, "postrouting");
    case "forward":
      return goTo(state, "postrouting");
    case "postrouting":
      state.sourceNatDone = true;
      if (machine.packet.from.at !== "node" || !local) return deliver(machine, state, false);
      state.iifname = "lo";
      return goTo(state, "prerouting");
    case "input":
      return deliver(machine, state, true);
  }
}

function goTo(state: State, hook: Hook): boolean {
  state.hook = hook;
  state.base = 0;
  return true;
}

function deliver(machine: Machine, state: State, local: boolean): boolean {
  return end(machine, state, {
    kind: "delivered",
    to: { address: state.destination, port: state.port },
    local,
    translated: state.translated,
    source: state.masqueraded ? "masqueraded" : "kept",
    mark: state.mark,
    priority: state.priority,
  });
}

type Ending<T> = T extends unknown ? Omit<T, "probability" | "steps" | "learned"> : never;

function end(machine: Machine, state: State, ending: Ending<Outcome>): false {
  const { probability, learned } = state;
  machine.outcomes.push({ ...ending, probability, learned, steps: stepsOf(state.trail) });
  return false;
}
