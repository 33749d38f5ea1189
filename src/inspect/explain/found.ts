import { FRONTEND_MAPS, type FrontendMapRole } from "../../ruleset/sets.ts";
import type { Outcome } from "../../trace/outcome.ts";

/** Whether any way of a connection found its frontend in one of the maps that both ways in have. */
export function isFoundIn(map: FrontendMapRole, outcomes: readonly Outcome[]): boolean {
  const names = Object.values(FRONTEND_MAPS).map((maps) => maps[map]);
  return outcomes.some(({ steps }) =>
    steps.some(
      (step) =>
        step.kind === "rule" &&
        step.effects.some((one) => one.kind === "found" && names.some((name) => name === one.set)),
    ),
  );
}

/**
 * Whether session affinity keeps the client on its endpoint: it is remembered, and that endpoint is still there (one
 * that is gone is looked up, missed, and forgotten).
 */
export function isKept(outcomes: readonly Outcome[]): boolean {
  const isForgotten = outcomes.some(({ steps }) =>
    steps.some((step) => step.kind === "rule" && step.effects.some(({ kind }) => kind === "deleted")),
  );
  return isFoundIn("affinity", outcomes) && !isForgotten;
}
