import { lowerBound } from "../base/first-sorted.ts";
import { comparePrecedenceFor, type ServicePort } from "../model/service-port.ts";
import { parseFrontendKey } from "./keys.ts";
import type { LostFrontends } from "./lost-frontends.ts";
import type { ServicePortRules } from "./service-port-rules.ts";

/** The former and the new owner of a frontend. */
export interface OwnerChange {
  readonly from: ServicePortRules | undefined;
  readonly to: ServicePortRules | undefined;
}

/** Tracks which service ports want each frontend, and which one has it. */
export class FrontendOwners {
  /** The service port that each frontend belongs to. */
  readonly #owners = new Map<string, ServicePortRules>();
  /** The candidates for each frontend that several service ports want (rare), best first. */
  readonly #conflicts = new Map<string, ServicePortRules[]>();
  readonly #lost: LostFrontends;

  /** @param lost records the frontends that service ports lose and regain */
  constructor(lost: LostFrontends) {
    this.#lost = lost;
  }

  /** The service port that each frontend belongs to. */
  get owners(): ReadonlyMap<string, ServicePortRules> {
    return this.#owners;
  }

  /** The candidates for each frontend that several service ports want, best first; live. */
  get conflicts(): ReadonlyMap<string, readonly ServicePortRules[]> {
    return this.#conflicts;
  }

  /** Replaces a candidate for a frontend. @param before ignored if it is not a candidate */
  replace(
    key: string,
    before: ServicePortRules | undefined,
    after: ServicePortRules | undefined,
  ): OwnerChange {
    const from = this.#owners.get(key);
    const all = this.#conflicts.get(key) ?? (from === undefined ? [] : [from]);
    if (all.length === 0 && after !== undefined) {
      this.#owners.set(key, after);
      return { from, to: after };
    }
    const { address = "" } = parseFrontendKey(key);
    const place = before === undefined ? -1 : placeOf(address, all, before);
    const isThere = before !== undefined && all[place] === before;
    if (isThere && after !== undefined && comparePrecedenceFor(address, before.port, after.port) === 0) {
      all[place] = after;
    } else {
      if (isThere) this.#remove(key, all, place);
      if (after !== undefined) this.#insert(key, all, placeOf(address, all, after), after);
    }
    const [to] = all;
    if (to === undefined) this.#owners.delete(key);
    else this.#owners.set(key, to);
    if (all.length > 1) this.#conflicts.set(key, all);
    else this.#conflicts.delete(key);
    return { from, to };
  }

  #remove(frontend: string, all: ServicePortRules[], place: number): void {
    const [winner, second] = all;
    const loser = place === 0 ? second : all[place];
    if (winner !== undefined && loser !== undefined)
      this.#lost.end({ frontend, winner: winner.port, loser: loser.port });
    all.splice(place, 1);
  }

  #insert(frontend: string, all: ServicePortRules[], place: number, added: ServicePortRules): void {
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
function placeOf(
  address: string,
  sorted: readonly { readonly port: ServicePort }[],
  { port }: ServicePortRules,
): number {
  return lowerBound(sorted, (other) => comparePrecedenceFor(address, other.port, port) < 0);
}
