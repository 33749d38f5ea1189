import type { ServicePort } from "../model/service-port.ts";
import type { Conflict } from "../ruleset/family-state.ts";

/** A service port without one of its frontends, because another Service has it. */
export interface LostFrontend {
  /** The frontend's key in the maps: `10.96.0.10 . tcp . 53`. */
  readonly frontend: string;
  readonly winner: ServicePort;
  readonly loser: ServicePort;
}

/** Tells new conflicts from those that were there after the last sync. */
export class ConflictWatch {
  #known: ReadonlySet<string> = new Set();

  /** The frontends lost since the last call. */
  newlyLost(conflicts: readonly Conflict[]): LostFrontend[] {
    const lost = conflicts.flatMap(({ frontend, winner, losers }) =>
      losers.map((loser) => ({ frontend, winner, loser })),
    );
    const fresh = lost.filter((one) => !this.#known.has(keyOf(one)));
    this.#known = new Set(lost.map(keyOf));
    return fresh;
  }
}

function keyOf({ frontend, winner, loser }: LostFrontend): string {
  return `${frontend} ${winner.key} ${loser.key}`;
}
