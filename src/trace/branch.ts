import type { Family } from "../base/family.ts";
import type { AnyChain, AnyRule, AnyTable } from "../nft/ast/any-table.ts";
import type { Effect, Hook, Outcome, RulePlace, Step, UndecidedRule, UpdatedElement } from "./outcome.ts";
import type { Host, Packet } from "./packet.ts";

/** An unknown value: of a fact about the packet, or of an expression. */
export const UNKNOWN: unique symbol = Symbol("unknown");

/** A number, or canonical text (an address, a name, the parts of a concatenation). */
export type Value = string | number;

/** The result of an expression; undefined if the kernel finds no value, which ends the rule. */
export type Evaluated = Value | undefined | typeof UNKNOWN;

/** A base chain and its table. */
export interface HookedChain {
  readonly table: AnyTable;
  readonly chain: AnyChain;
}

/** The inputs that all branches of one packet's evaluation share, and their results. */
export interface Evaluation {
  readonly family: Family;
  /** The base chains of each hook, in the order that packets pass them. */
  readonly baseChains: Readonly<Record<Hook, readonly HookedChain[]>>;
  readonly packet: Packet;
  readonly host: Host;
  /** Contents of dynamic maps before the packet, by {@link setKey}; they replace the listed elements. */
  readonly dynamicBefore: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Branches still to follow. */
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
  readonly chain: AnyChain;
  /** The rule after the one that jumped. */
  readonly rule: number;
  readonly caller: Caller | undefined;
}

/** A rule that is assumed not to match, and the position where that makes a difference. */
export interface Assumption {
  readonly rule: UndecidedRule;
  readonly base: number;
  /** {@link Branch.changes} at that moment. */
  readonly changes: number;
}

/**
 * One possible path of a packet: its current fields and its position in the rules. It starts as the packet
 * arrives. It has only fields, as branches are copied by `{ ...branch }`, which would lose methods.
 */
export class Branch {
  readonly evaluation: Evaluation;
  /** Whether to record effects and steps. */
  readonly withSteps: boolean;
  probability = 1;
  destination: string;
  port: number;
  /** Undefined when not known. */
  iifname: string | undefined;
  mark: number | undefined = 0;
  connectionMark: number | undefined;
  priority: number | undefined = 0;
  translated = false;
  /** Undefined if not known: masquerading takes one of the node's addresses on the route. */
  source: string | undefined;
  masqueraded = false;
  /** Undefined when not known: clients choose theirs at random. */
  sourcePort: number | undefined;
  /** False for an answer to a masqueraded connection until it is translated back to the client. */
  isDestinationKnown: boolean;
  /**
   * Each kind of translation happens once for a connection: in the hook's first nat chain that has one, or at
   * the end of the hook. A packet that returns over loopback passes no nat chain again.
   */
  destinationNatDone = false;
  sourceNatDone = false;
  /** Changes to dynamic maps, by {@link setKey} and key; undefined for a deleted element. */
  dynamicChanges: ReadonlyMap<string, string | undefined> = new Map();
  updates: readonly UpdatedElement[] = [];
  steps: StepList | undefined;
  assumptions: readonly Assumption[] = [];
  /** Number of changes by rules to the packet, its marks or a set. */
  changes = 0;
  hook: Hook;
  /** Index of the current base chain among those of the hook. */
  base = 0;
  table: AnyTable | undefined;
  chain: AnyChain | undefined;
  rule = 0;
  statement = 0;
  /** The value of `numgen` in the current statement of this branch. */
  random: number | undefined;
  /** Whether it is unknown that the current rule matches. */
  undecided = false;
  caller: Caller | undefined;
  /** Effects of the current rule so far. */
  effects: readonly Effect[] = [];

  constructor(evaluation: Evaluation, withSteps: boolean) {
    const { from, to, port, conntrack, answers } = evaluation.packet;
    this.evaluation = evaluation;
    this.withSteps = withSteps;
    this.destination = to;
    this.port = port;
    this.iifname = from.at === "node" ? "" : from.iifname;
    this.connectionMark = conntrack === "established" ? undefined : 0;
    this.source = from.address;
    this.sourcePort = answers?.endpoint.port;
    this.isDestinationKnown = answers?.isMasqueraded !== true;
    this.hook = from.at === "node" ? "output" : "prerouting";
  }
}

/** Records an effect of the current rule. */
export function addEffect(branch: Branch, effect: Effect): void {
  if (branch.withSteps) branch.effects = [...branch.effects, effect];
}

export function addStep(branch: Branch, step: Step): void {
  if (branch.withSteps) branch.steps = { step, before: branch.steps };
}

/** Returns the steps of a list, oldest first. */
export function stepsOf(list: StepList | undefined): Step[] {
  const steps: Step[] = [];
  for (let at = list; at !== undefined; at = at.before) steps.push(at.step);
  return steps.reverse();
}

/** Returns the rule at a branch's position; undefined at the end of a chain. */
export function currentRule(branch: Branch): AnyRule | undefined {
  return branch.chain?.rules[branch.rule];
}

/** Returns the position of the current rule. Only for a branch that is in a chain. */
export function currentPlace({ hook, table, chain, rule: index }: Branch): RulePlace {
  if (table === undefined || chain === undefined) throw new Error("the branch is in no chain");
  const text = chain.texts?.[index];
  const { family, name } = table;
  const rule = chain.rules[index] ?? [];
  return {
    hook,
    table: { family, name },
    chain: chain.name,
    index,
    rule,
    ...(text !== undefined && { text }),
  };
}

/** The key of a set in {@link Evaluation.dynamicBefore}. */
export function setKey(family: string, table: string, set: string): string {
  return `${family} ${table} ${set}`;
}

/**
 * Whether nat chains of a hook translate sources: those of input do, as those of postrouting. Source:
 * HOOK2MANIP in net/nf_nat.h.
 */
export function isSourceNat(hook: Hook): boolean {
  return hook === "postrouting" || hook === "input";
}
