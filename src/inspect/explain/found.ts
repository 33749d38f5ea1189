import { type ListName, parseId } from "../../ruleset/list-ids.ts";
import { AFFINITY, BALANCERS } from "../../ruleset/sets.ts";
import type { Effect, Outcome } from "../../trace/outcome.ts";

type Found = Extract<Effect, { readonly kind: "found" }>;

function isFound(outcomes: readonly Outcome[], isMeant: (effect: Found) => boolean): boolean {
  return outcomes.some(({ steps }) =>
    steps.some((step) => step.kind === "rule" && step.effects.some((one) => one.kind === "found" && isMeant(one))),
  );
}

/** Whether any course of a connection leads to a list of endpoints. */
export function isBalancedOver(list: ListName, outcomes: readonly Outcome[]): boolean {
  return isFound(outcomes, ({ set, key }) => set === BALANCERS && parseId(Number(key))?.way === list);
}

/**
 * Whether session affinity keeps the client on its endpoint: it has an affinity entry whose endpoint still exists. The
 * rules delete an entry whose endpoint is missing.
 */
export function isKept(outcomes: readonly Outcome[]): boolean {
  const isDeleted = outcomes.some(({ steps }) =>
    steps.some((step) => step.kind === "rule" && step.effects.some(({ kind }) => kind === "deleted")),
  );
  return isFound(outcomes, ({ set }) => set === AFFINITY) && !isDeleted;
}

/** Why exactly this client has one endpoint of several. */
export type ClientChoice = "affinity" | "hash";

/** The reason for which a client has one endpoint of several; undefined where none has to do with the client. */
export function clientChoice(outcomes: readonly Outcome[]): ClientChoice | undefined {
  if (isKept(outcomes)) return "affinity";
  const isHashed = outcomes.some(({ steps }) =>
    steps.some((step) => step.kind === "rule" && step.effects.some(({ kind }) => kind === "hash")),
  );
  return isHashed ? "hash" : undefined;
}
