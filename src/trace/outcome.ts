import { sortedEntries } from "../base/first-sorted.ts";
import type { AnyRule, TableName } from "../nft/ast/any-table.ts";
import type { BaseChain } from "../nft/ast/ruleset.ts";
import type { Destination } from "./packet.ts";

/** A hook of netfilter. */
export type Hook = BaseChain["hook"];

/** An effect of a statement. Keys and values are canonical text (see nft/ast/ruleset.ts). */
export type Effect =
  | { readonly kind: "found"; readonly set: string; readonly key: string; readonly value: string }
  | { readonly kind: "missed"; readonly set: string; readonly key: string }
  | { readonly kind: "verdict"; readonly verdict: string }
  | { readonly kind: "assigned"; readonly register: "mark" | "priority"; readonly value: number }
  /** A number below `choices` that depends only on the packet. */
  | { readonly kind: "hash"; readonly value: number; readonly choices: number }
  | { readonly kind: "random"; readonly value: number; readonly choices: number }
  | { readonly kind: "dnat"; readonly to: Destination }
  | { readonly kind: "masquerade" }
  /** The connection gets the timeouts of an object. */
  | { readonly kind: "timeouts"; readonly object: string }
  /** `reset`: by a TCP reset, otherwise by an ICMP error. */
  | { readonly kind: "reject"; readonly reset: boolean }
  | {
      readonly kind: "updated";
      readonly map: string;
      readonly key: string;
      readonly value: string;
      /** Seconds. */
      readonly timeout: number;
    }
  | { readonly kind: "deleted"; readonly map: string; readonly key: string }
  | { readonly kind: "full"; readonly map: string }
  /** A client has as many connections, or makes as many new ones, as a limit allows. */
  | { readonly kind: "beyond"; readonly set: string; readonly most: number };

/** The position of a rule, and the rule itself. */
export interface RulePlace {
  readonly hook: Hook;
  readonly table: TableName;
  readonly chain: string;
  /** Position in the chain, from 0. */
  readonly index: number;
  readonly rule: AnyRule;
  /** The rule as `nft list` prints it, if known. */
  readonly text?: string;
}

/** A rule whose match or effect is unknown. The steps after it assume that it does not match. */
export interface UndecidedRule extends RulePlace {
  /** Its verdict if it matches, in nft's words; undefined if that is unknown or not only a verdict. */
  readonly verdict?: string;
}

/** One step of a packet through the hooks. Rules without an effect are omitted. */
export type Step =
  | { readonly kind: "hook"; readonly hook: Hook }
  | (RulePlace & {
      readonly kind: "rule";
      readonly effects: readonly Effect[];
      /** False if a comparison or lookup in it failed and ended it there. */
      readonly completed: boolean;
    })
  | (UndecidedRule & { readonly kind: "undecided" })
  /** The policy of a base chain drops the packet. */
  | (Pick<RulePlace, "hook" | "table" | "chain"> & { readonly kind: "policy" })
  | { readonly kind: "martian"; readonly address: string };

/** An element that this packet added to, or refreshed in, a dynamic map or set; its timeout in seconds. */
export interface UpdatedElement extends Omit<Extract<Effect, { readonly kind: "updated" }>, "kind"> {
  readonly table: TableName;
}

/** The end of a packet. */
export type Ending =
  | {
      readonly kind: "delivered";
      readonly to: Destination;
      /** Delivered to the node itself (input), or forwarded. */
      readonly local: boolean;
      /** False if it reaches its original destination. */
      readonly translated: boolean;
      readonly source: "kept" | "masqueraded";
      /** Final values of the registers, undefined if not known. Other software must not see our values. */
      readonly mark: number | undefined;
      readonly priority: number | undefined;
    }
  | { readonly kind: "refused" }
  | { readonly kind: "dropped" };

/** An uncertain end: rules that are not understood may decide otherwise. */
export interface UndecidedEnding {
  readonly kind: "not-understood";
  readonly rules: readonly UndecidedRule[];
  /** The end if none of them matches. */
  readonly otherwise: Ending;
}

/** A possible outcome for a packet. The probabilities of all its outcomes add up to 1. */
export type Outcome = (Ending | UndecidedEnding) & {
  readonly probability: number;
  readonly steps: readonly Step[];
  readonly updates: readonly UpdatedElement[];
};

/** A packet that reaches a machine. */
export type Delivered = Extract<Outcome, { readonly kind: "delivered" }>;

/** A destination of a packet, with its probability. */
export interface WeightedDestination extends Destination {
  readonly probability: number;
  readonly source: "kept" | "masqueraded";
  readonly translated: boolean;
}

/** The outcomes of a packet, added up. */
export type Summary = Readonly<ReturnType<typeof summarize>>;

/** Adds up outcomes by destination. */
export function summarize(outcomes: readonly Outcome[]) {
  const destinations = new Map<string, WeightedDestination>();
  const sums = { refused: 0, dropped: 0, "not-understood": 0 };
  for (const outcome of outcomes) {
    if (outcome.kind === "delivered") {
      const { to, source, translated } = outcome;
      const key = `${to.address} ${String(to.port).padStart(5)} ${source} ${translated}`;
      const probability = (destinations.get(key)?.probability ?? 0) + outcome.probability;
      destinations.set(key, { ...to, probability, source, translated });
    } else sums[outcome.kind] += outcome.probability;
  }
  return {
    /** By address and port. A destination reached both with and without masquerading is listed twice. */
    destinations: sortedEntries(destinations).map(([, destination]) => destination),
    /** Probabilities. */
    refused: sums.refused,
    dropped: sums.dropped,
    notUnderstood: sums["not-understood"],
    /**
     * Whether the next connection of this client will find an entry in a dynamic map. Refused or dropped
     * connections may be recorded in a set, too, but choose no endpoint.
     */
    sticky: outcomes.some(({ kind, updates }) => kind === "delivered" && updates.length > 0),
  };
}
