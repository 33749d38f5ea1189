import type { Conflict } from "../../ruleset/ruleset-state.ts";

/** A warning for each frontend that more than one service port wants. */
export function conflictNotices(conflicts: readonly Conflict[]): string[] {
  return conflicts.map(({ frontend, winner, losers }) => {
    const others = losers.map(({ name }) => name).join(", ");
    return `warning: ${frontend.replaceAll(" . ", " ")} belongs to ${winner.name}, the oldest that wants it; not to ${others}`;
  });
}
