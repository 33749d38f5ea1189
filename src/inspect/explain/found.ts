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
 * Whether session affinity keeps the client on its endpoint: it has an affinity entry whose endpoint still exists. The
 * rules delete an entry whose endpoint is missing.
 */
export function isKept(outcomes: readonly Outcome[]): boolean {
  const isDeleted = outcomes.some(({ steps }) =>
    steps.some((step) => step.kind === "rule" && step.effects.some(({ kind }) => kind === "deleted")),
  );
  return isFoundIn("affinity", outcomes) && !isDeleted;
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
