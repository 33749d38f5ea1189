import { lowerBound } from "../base/first-sorted.ts";
import { comparePrecedenceFor, type ServicePort } from "../model/service-port.ts";
import type { FrontendRules } from "./frontend-rules.ts";
import { parseFrontendKey } from "./keys.ts";
import type { LostFrontends } from "./lost-frontends.ts";

/** The former and the new rules of a frontend: those of its owner. */
export interface OwnerChange {
  readonly from: FrontendRules | undefined;
  readonly to: FrontendRules | undefined;
}

/** Tracks which service ports want each frontend, and which one has it. */
export class FrontendOwners {
  readonly #owners = new Map<string, FrontendRules>();
  readonly #conflicts = new Map<string, FrontendRules[]>();
  /** By frontend: the rules of the service port that it belongs to. */
  readonly owners: ReadonlyMap<string, FrontendRules> = this.#owners;
  /** The candidates for each frontend that several service ports want (rare), best first. */
  readonly conflicts: ReadonlyMap<string, readonly FrontendRules[]> = this.#conflicts;
  readonly #lost: LostFrontends;

  /** @param lost records the frontends that service ports lose and regain */
  constructor(lost: LostFrontends) {
    this.#lost = lost;
  }

  /** Replaces a candidate for a frontend. @param before the port as it was; ignored if it is no candidate */
  replace(key: string, before: ServicePort | undefined, after: FrontendRules | undefined): OwnerChange {
    const from = this.#owners.get(key);
    const all = this.#conflicts.get(key) ?? (from === undefined ? [] : [from]);
    if (all.length === 0 && after !== undefined) {
      this.#owners.set(key, after);
      return { from, to: after };
    }
    const { address = "" } = parseFrontendKey(key);
    const place = before === undefined ? -1 : placeOf(address, all, before);
    const isThere = before !== undefined && all[place]?.port.key === before.key;
    if (isThere && after !== undefined && comparePrecedenceFor(address, before, after.port) === 0) {
      all[place] = after;
    } else {
      if (isThere) this.#remove(key, all, place);
      if (after !== undefined) this.#insert(key, all, placeOf(address, all, after.port), after);
    }
    const [to] = all;
    if (to === undefined) this.#owners.delete(key);
    else this.#owners.set(key, to);
    if (all.length > 1) this.#conflicts.set(key, all);
    else this.#conflicts.delete(key);
    return { from, to };
  }

  #remove(frontend: string, all: FrontendRules[], place: number): void {
    const [winner, second] = all;
    const loser = place === 0 ? second : all[place];
    if (winner !== undefined && loser !== undefined)
      this.#lost.end({ frontend, winner: winner.port, loser: loser.port });
    all.splice(place, 1);
  }

  #insert(frontend: string, all: FrontendRules[], place: number, added: FrontendRules): void {
    const [known] = all;
    if (known !== undefined) {
      const [winner, loser] = place === 0 ? [added, known] : [known, added];
      this.#lost.begin({ frontend, winner: winner.port, loser: loser.port });
    }
    if (place === all.length) all.push(added);
    else all.splice(place, 0, added);
  }
}

/**
 * The index of the first candidate that does not come before the given one. A binary search, which works
 * because no two have equal precedence: sorting or scanning for every change takes minutes when thousands of
 * Services share an address.
 */
function placeOf(address: string, sorted: readonly FrontendRules[], port: ServicePort): number {
  return lowerBound(sorted, (other) => comparePrecedenceFor(address, other.port, port) < 0);
}
