import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { Rule } from "../nft/ast/json.ts";
import type { Chain, ElementSet, Table } from "../nft/ast/ruleset.ts";
import type { Effect, Hook, Learned, Outcome, Step } from "./outcome.ts";
import type { Host, Packet } from "./packet.ts";

/** What stays the same for all branches of one packet's evaluation, and what they leave behind. */
export interface Machine {
  readonly family: Family;
  /** Absent: there is no table, and packets pass. */
  readonly table: Table | undefined;
  readonly baseChains: Readonly<Record<Hook, readonly Chain[]>>;
  readonly packet: Packet;
  readonly host: Host;
  /** Contents of the dynamic maps before the packet, by name. */
  readonly dynamic: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Branches that are still to be followed. */
  readonly pending: State[];
  readonly outcomes: Outcome[];
}

/** A list that branches share: the newest first. */
export interface Trail {
  readonly step: Step;
  readonly before: Trail | undefined;
}

/** Where evaluation goes on after a chain. */
export interface Caller {
  readonly chain: Chain;
  /** The rule after the one that jumped. */
  readonly rule: number;
  readonly caller: Caller | undefined;
}

/** One branch: the packet as it is now, and the place that it has reached. */
export interface State {
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
   * it, or when the hook is left; a packet that comes back over loopback passes no nat chain again.
   */
  destinationNatDone: boolean;
  sourceNatDone: boolean;
  /** Changes to the dynamic maps, by `map key`; undefined for what was deleted. */
  dynamic: ReadonlyMap<string, string | undefined>;
  learned: readonly Learned[];
  trail: Trail | undefined;
  hook: Hook;
  /** The base chain of the hook that is evaluated, by its position. */
  base: number;
  chain: Chain | undefined;
  rule: number;
  statement: number;
  caller: Caller | undefined;
  /** What the current rule has done so far. */
  effects: readonly Effect[];
}

/** The state in which a packet comes to its first hook. */
export function initialState(packet: Packet): State {
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
    learned: [],
    trail: undefined,
    hook: packet.from.at === "node" ? "output" : "prerouting",
    base: 0,
    chain: undefined,
    rule: 0,
    statement: 0,
    caller: undefined,
    effects: [],
  };
}

/** Notes something that the current rule did. */
export function addEffect(state: State, effect: Effect): void {
  state.effects = [...state.effects, effect];
}

/** Notes a step of the way. */
export function addStep(state: State, step: Step): void {
  state.trail = { step, before: state.trail };
}

/** The steps of a trail, oldest first. */
export function stepsOf(trail: Trail | undefined): Step[] {
  const steps: Step[] = [];
  for (let at = trail; at !== undefined; at = at.before) steps.push(at.step);
  return steps.reverse();
}

/** The set or map behind a reference such as `@endpoints`. */
export function setOf(machine: Machine, reference: string): ElementSet {
  const set = machine.table?.sets.get(reference.slice(1));
  if (set === undefined) throw unknownToEvaluator(`the set ${reference}`, reference);
  return set;
}

/** The failure to evaluate something: the answer would be a guess. */
export function unknownToEvaluator(what: string, part: unknown): AppError {
  return new AppError("NFT_OUTPUT", `cannot tell what a packet would do: ${what} is not known to the evaluator`, {
    evidence: { part: JSON.stringify(part) },
  });
}

/** The rule that a state has reached; undefined at the end of a chain. */
export function currentRule(state: State): Rule | undefined {
  return state.chain?.rules[state.rule];
}
