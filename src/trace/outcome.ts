import type { Rule } from "../nft/ast/json.ts";
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
  | { readonly kind: "random"; readonly value: number; readonly choices: number }
  | { readonly kind: "dnat"; readonly to: Destination }
  | { readonly kind: "masquerade" }
  | { readonly kind: "reject" }
  | {
      readonly kind: "updated";
      readonly map: string;
      readonly key: string;
      readonly value: string;
      readonly timeout: number;
    }
  | { readonly kind: "deleted"; readonly map: string; readonly key: string }
  | { readonly kind: "full"; readonly map: string };

/** One step of a packet through the hooks. Rules without an effect are omitted. */
export type Step =
  | { readonly kind: "hook"; readonly hook: Hook }
  | {
      readonly kind: "rule";
      readonly hook: Hook;
      readonly chain: string;
      /** Position in the chain, from 0. */
      readonly index: number;
      readonly rule: Rule;
      readonly effects: readonly Effect[];
      /** False when a comparison or lookup in it failed and ended it there. */
      readonly completed: boolean;
    }
  | { readonly kind: "policy"; readonly hook: Hook; readonly chain: string; readonly policy: "drop" }
  | { readonly kind: "martian"; readonly address: string };

/** An element that this packet put into, or refreshed in, a dynamic map. */
export interface UpdatedElement {
  readonly map: string;
  readonly key: string;
  readonly value: string;
  /** Seconds. */
  readonly timeout: number;
}

/** A possible outcome for a packet. The probabilities of all its outcomes add up to 1. */
export type Outcome = {
  readonly probability: number;
  readonly steps: readonly Step[];
  readonly updates: readonly UpdatedElement[];
} & (
  | {
      readonly kind: "delivered";
      readonly to: Destination;
      /** Delivered to the node itself (input), or forwarded. */
      readonly local: boolean;
      /** False when it reaches its original destination. */
      readonly translated: boolean;
      readonly source: "kept" | "masqueraded";
      /** Final values of the registers. Our values must not reach the rules of other software. */
      readonly mark: number;
      readonly priority: number;
    }
  | { readonly kind: "refused" }
  | { readonly kind: "dropped" }
);

/** A destination of a packet, with its probability. */
export interface WeightedDestination extends Destination {
  readonly probability: number;
  readonly source: "kept" | "masqueraded";
  readonly translated: boolean;
}

/** The outcomes of a packet, added up. */
export interface Summary {
  /** By address and port. A destination that is reached both with the source kept and masqueraded is listed twice. */
  readonly destinations: readonly WeightedDestination[];
  /** Probabilities. */
  readonly refused: number;
  readonly dropped: number;
  /** The next connection of this client will find an entry in a dynamic map. */
  readonly sticky: boolean;
}

/** Adds up outcomes by destination. */
export function summarize(outcomes: readonly Outcome[]): Summary {
  const destinations = new Map<string, WeightedDestination>();
  let refused = 0;
  let dropped = 0;
  for (const outcome of outcomes) {
    if (outcome.kind === "refused") refused += outcome.probability;
    else if (outcome.kind === "dropped") dropped += outcome.probability;
    else {
      const { to, source, translated } = outcome;
      const key = `${to.address} ${String(to.port).padStart(5)} ${source} ${translated}`;
      const probability = (destinations.get(key)?.probability ?? 0) + outcome.probability;
      destinations.set(key, { ...to, probability, source, translated });
    }
  }
  const sorted = [...destinations].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, destination]) => destination);
  return {
    destinations: sorted,
    refused,
    dropped,
    sticky: outcomes.some(({ updates }) => updates.length > 0),
  };
}
