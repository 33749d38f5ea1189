import type { ServiceName } from "../model/ids.ts";
import type { ServicePort } from "../model/service-port.ts";

/** A frontend that a service port wants and does not have. */
export interface LostFrontend {
  /** Its key: `10.96.0.10 . tcp . 53`; of a range of ports, the first part that another one has. */
  readonly frontend: string;
  readonly loser: ServicePort;
  /** The service port that has it; of a frontend that is no longer lost, the one that had it. */
  readonly winner: ServicePort;
}

/** How the lost frontends differ from those of the last report. */
export interface ConflictChanges {
  /** All that are lost now, each once for each service port that wants it. */
  readonly count: number;
  /** A frontend that is still lost, to another winner, is neither new nor ended. */
  readonly begun: readonly LostFrontend[];
  readonly ended: readonly LostFrontend[];
}

/**
 * Keeps which frontends are lost, as numbers, and what changed since it was last asked: what a change costs does not depend on
 * how many conflicts there are.
 */
export class LostFrontends {
  #count = 0;
  readonly #ofServices = new Map<ServiceName, number>();
  /** Since the last report, by frontend and loser; what came and went again, or went and came, is in neither. */
  readonly #begun = new Map<string, LostFrontend>();
  readonly #ended = new Map<string, LostFrontend>();

  /** All that are lost, each once for each service port that wants it. */
  get count(): number {
    return this.#count;
  }

  /** The Services that lack a frontend. */
  get services(): Iterable<ServiceName> {
    return this.#ofServices.keys();
  }

  /** A service port wants a frontend that another one has. To be told once until it is told otherwise. */
  begin(lost: LostFrontend): void {
    this.#count += 1;
    this.#addToService(lost, 1);
    const id = idOf(lost);
    if (!this.#ended.delete(id)) this.#begun.set(id, lost);
  }

  /** A service port has a frontend, or wants it no more. */
  end(lost: LostFrontend): void {
    this.#count -= 1;
    this.#addToService(lost, -1);
    const id = idOf(lost);
    if (!this.#begun.delete(id)) this.#ended.set(id, lost);
  }

  /**
   * Hands over what changed since the last call.
   * @param winnerOf the service port that has a frontend now; undefined where the one that was told of stands
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

  #addToService({ loser }: LostFrontend, added: number): void {
    const { name } = loser.service;
    const count = (this.#ofServices.get(name) ?? 0) + added;
    if (count > 0) this.#ofServices.set(name, count);
    else this.#ofServices.delete(name);
  }
}

function idOf({ frontend, loser }: LostFrontend): string {
  return `${frontend} ${loser.key}`;
}
