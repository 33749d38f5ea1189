import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { Rule } from "../nft/ast/json.ts";
import type { Chain, ElementSet, Table } from "../nft/ast/ruleset.ts";
import type { Effect, Hook, Outcome, Step, UpdatedElement } from "./outcome.ts";
import type { Host, Packet } from "./packet.ts";

/** The inputs that all branches of one packet's evaluation share, and their results. */
export interface Evaluation {
  readonly family: Family;
  /** Absent when there is no table; packets then pass. */
  readonly table: Table | undefined;
  readonly baseChains: Readonly<Record<Hook, readonly Chain[]>>;
  readonly packet: Packet;
  readonly host: Host;
  /** Contents of the dynamic maps before the packet, by name. */
  readonly dynamic: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Branches not followed yet. */
  readonly pending: Branch[];
  readonly outcomes: Outcome[];
}

/** A linked list of steps, newest first, so that branches share their common steps. */
export interface StepList {
  readonly step: Step;
  readonly before: StepList | undefined;
}

/** The position at which evaluation continues after a chain. */
export interface Caller {
  readonly chain: Chain;
  /** The rule after the one that jumped. */
  readonly rule: number;
  readonly caller: Caller | undefined;
}

/** One possible course of the packet: its current fields, and its position in the rules. */
export interface Branch {
  probability: number;
  destination: string;
  port: number;
  iifname: string;
  mark: number;
  priority: number;
  translated: boolean;
  masqueraded: boolean;
  /**
   * Each kind of translation is set up once for a connection, by the first of the hook's nat chains that has one for
   * it, or at the end of the hook. A packet that returns over loopback passes no nat chain again.
   */
  destinationNatDone: boolean;
  sourceNatDone: boolean;
  /** Changes to the dynamic maps, by `map key`; undefined for what was deleted. */
  dynamic: ReadonlyMap<string, string | undefined>;
  updates: readonly UpdatedElement[];
  steps: StepList | undefined;
  hook: Hook;
  /** Index of the current base chain among those of the hook. */
  base: number;
  chain: Chain | undefined;
  rule: number;
  statement: number;
  caller: Caller | undefined;
  /** Effects of the current rule so far. */
  effects: readonly Effect[];
}

/** Returns the branch with which the evaluation of a packet starts. */
export function firstBranch(packet: Packet): Branch {
  return {
    probability: 1,
    destination: packet.to,
    port: packet.port,
    iifname: packet.from.iifname ?? "",
    mark: 0,
    priority: 0,
    translated: false,
    masqueraded: false,
    destinationNatDone: false,
    sourceNatDone: false,
    dynamic: new Map(),
    updates: [],
    steps: undefined,
    hook: packet.from.at === "node" ? "output" : "prerouting",
    base: 0,
    chain: undefined,
    rule: 0,
    statement: 0,
    caller: undefined,
    effects: [],
  };
}

/** Records an effect of the current rule. */
export function addEffect(branch: Branch, effect: Effect): void {
  branch.effects = [...branch.effects, effect];
}

/** Records a step. */
export function addStep(branch: Branch, step: Step): void {
  branch.steps = { step, before: branch.steps };
}

/** Returns the steps of a list, oldest first. */
export function stepsOf(list: StepList | undefined): Step[] {
  const steps: Step[] = [];
  for (let at = list; at !== undefined; at = at.before) steps.push(at.step);
  return steps.reverse();
}

/**
 * Returns the set or map behind a reference such as `@endpoints`.
 * @throws AppError NFT_OUTPUT when the table has no such set
 */
export function setOf(evaluation: Evaluation, reference: string): ElementSet {
  const set = evaluation.table?.sets.get(reference.slice(1));
  if (set === undefined) throw notEvaluable(`the set ${reference}`, reference);
  return set;
}

/** Returns the error for a part of a rule that the evaluator does not know: any answer would be a guess. */
export function notEvaluable(what: string, part: unknown): AppError {
  return new AppError("NFT_OUTPUT", `cannot tell what a packet would do: ${what} is not known to the evaluator`, {
    evidence: { part: JSON.stringify(part) },
  });
}

/** Returns the rule at a branch's position; undefined at the end of a chain. */
export function currentRule(branch: Branch): Rule | undefined {
  return branch.chain?.rules[branch.rule];
}
