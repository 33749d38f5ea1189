import { addToCount } from "../base/group-by.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ServicePort } from "../model/service-port.ts";

/** A frontend that a service port wants but another one has. */
export interface LostFrontend {
  /** Its key: `10.96.0.10 . tcp . 53`; for a range, the first part that another service port has. */
  readonly frontend: string;
  readonly loser: ServicePort;
  /** The service port that has it, or had it until the conflict ended. */
  readonly winner: ServicePort;
}

/** The changes of lost frontends since the last report. */
export interface ConflictChanges {
  /** Number of lost frontends, counted for each service port that wants them. */
  readonly count: number;
  /** A conflict that only changes its winner is neither begun nor ended. */
  readonly begun: readonly LostFrontend[];
  readonly ended: readonly LostFrontend[];
}

/** Tracks lost frontends and their changes, at a cost that does not depend on their number. */
export class LostFrontends {
  #count = 0;
  readonly #ofServices = new Map<ServiceName, number>();
  /** Changes since the last report, by frontend and loser; without those that were undone. */
  readonly #begun = new Map<string, LostFrontend>();
  readonly #ended = new Map<string, LostFrontend>();

  /** Number of lost frontends, counted for each service port that wants them. */
  get count(): number {
    return this.#count;
  }

  /** The Services that lack a frontend. */
  get services(): Iterable<ServiceName> {
    return this.#ofServices.keys();
  }

  /**
   * Records that a service port wants another one's frontend. Call it once, until {@link LostFrontends.end}.
   */
  begin(lost: LostFrontend): void {
    this.#count += 1;
    addToCount(this.#ofServices, lost.loser.service.name, 1);
    const id = idOf(lost);
    if (!this.#ended.delete(id)) this.#begun.set(id, lost);
  }

  /** Records that a service port got a frontend, or no longer wants it. */
  end(lost: LostFrontend): void {
    this.#count -= 1;
    addToCount(this.#ofServices, lost.loser.service.name, -1);
    const id = idOf(lost);
    if (!this.#begun.delete(id)) this.#ended.set(id, lost);
  }

  /**
   * Returns the changes since the last call.
   * @param winnerOf the current owner of a frontend; undefined if it is still the reported one
   */
  take(winnerOf: (frontend: string) => ServicePort | undefined): Omit<ConflictChanges, "count"> {
    const begun = Array.from(this.#begun.values(), (lost) => {
      const winner = winnerOf(lost.frontend) ?? lost.winner;
      return winner === lost.winner ? lost : { ...lost, winner };
    });
    const ended = [...this.#ended.values()];
    this.#begun.clear();
    this.#ended.clear();
    return { begun, ended };
  }
}

/** The names of both sides of conflicts: the service ports of a single one, the Services of several. */
export function conflictSides(lost: readonly LostFrontend[]) {
  const nameOf = ({ name, service }: ServicePort) => (lost.length === 1 ? name : service.name);
  const namesOf = (side: "loser" | "winner") => [...new Set(lost.map((one) => nameOf(one[side])))].sort();
  return { losers: namesOf("loser"), winners: namesOf("winner") };
}

function idOf({ frontend, loser }: LostFrontend): string {
  return `${frontend} ${loser.key}`;
}
