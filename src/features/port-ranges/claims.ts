import { lowerBound } from "../../base/first-sorted.ts";
import { addToSet, removeFromSet } from "../../base/group-by.ts";
import { comparePrecedenceFor, type ServicePort } from "../../model/service-port.ts";
import type { FrontendRules } from "../../ruleset/frontend-rules.ts";
import type {
  DividedIntervals,
  IntervalChanges,
  PieceChange,
  PortInterval,
  WantedIntervals,
} from "../../ruleset/interval-frontends.ts";
import { intervalKey, parseFrontendKey, placeOfKey } from "../../ruleset/keys.ts";
import type { LostFrontend, LostFrontends } from "../../ruleset/lost-frontends.ts";
import { atInterval } from "../../ruleset/service-port-rules.ts";

/** A port range that a service port wants at an address, or a piece of it. */
interface Claim extends PortInterval {
  readonly rules: FrontendRules;
  /** Whether the service port has session affinity, and so an id of that kind. */
  readonly isSticky: boolean;
}

/** The owners of the ports of one place. */
interface Division {
  /** Ascending; no two overlap. */
  readonly pieces: readonly Claim[];
  readonly byKey: ReadonlyMap<string, Claim>;
  readonly conflicts: readonly LostFrontend[];
}

const UNDIVIDED: Division = { pieces: [], byKey: new Map(), conflicts: [] };

/**
 * Maximum number of ranges served at one address and protocol, by precedence: dividing so many takes 0.1 s.
 * Many tenants may name one address, and more ranges would delay everybody's changes.
 */
const MOST_RANGES_OF_ADDRESS = 2000;

/** Maximum number of winners reported for one range: a thousand Services may each have a port of it. */
const MOST_WINNERS = 10;

/** Maximum number of ranges beyond {@link MOST_RANGES_OF_ADDRESS} to report as conflicts. */
const MOST_REPORTED = 100;

/** An address and protocol with ranges. */
interface Place {
  readonly address: string;
  /** In order of precedence. */
  readonly claims: Claim[];
  division: Division;
}

/**
 * Divides the ports of each address among the ranges that service ports want. Where several want a port, the
 * one with precedence gets it. Pieces do not overlap, as the kernel refuses overlaps. A change of a range
 * recreates all pieces of its address, at most two for each range. Explicit ports do not cut ranges, as other
 * Services could then cut a range into many pieces. Instead, rules look up explicit ports first.
 */
export class Claims implements DividedIntervals {
  readonly #frontends: () => Iterable<string>;
  readonly #lost: LostFrontends;
  readonly #places = new Map<string, Place>();
  /** The explicit frontends of each address and protocol; undefined until there is a range. */
  #ports: Map<string, Set<string>> | undefined;
  readonly #dirty = new Set<string>();
  #changed = 0;

  /**
   * @param frontends the keys of all explicit frontends of service ports
   * @param lost records the ports that service ports lose and regain
   */
  constructor(frontends: () => Iterable<string>, lost: LostFrontends) {
    this.#frontends = frontends;
    this.#lost = lost;
  }

  get changed(): number {
    return this.#changed;
  }

  /** Records that an explicit frontend was added or deleted. @returns whether its address has ranges */
  setPort(frontend: string, isThere: boolean): boolean {
    if (this.#ports === undefined) return false;
    const place = placeOfKey(frontend);
    if (isThere) addToSet(this.#ports, place, frontend);
    else removeFromSet(this.#ports, place, frontend);
    return this.#places.has(place);
  }

  /** Replaces the ranges of a service port. Changes of its endpoints have no effect here. */
  replace(before: WantedIntervals | undefined, after: WantedIntervals | undefined): void {
    if (before !== undefined && after !== undefined && wantTheSame(before, after)) return;
    this.#changed += Math.max(before?.intervals.length ?? 0, after?.intervals.length ?? 0);
    for (const claim of claimsOf(before)) this.#delete(claim);
    for (const claim of claimsOf(after)) this.#add(claim);
  }

  /** Divides the ports of places that changed. */
  update(): IntervalChanges {
    const pieces: PieceChange[] = [];
    const addedPorts: string[] = [];
    const deletedPorts: string[] = [];
    for (const name of [...this.#dirty].sort()) {
      const place = this.#places.get(name);
      if (place === undefined) continue;
      const isNew = place.division === UNDIVIDED;
      const division = divide(place);
      for (const change of changesOf(place.division, division)) pieces.push(change);
      for (const lost of place.division.conflicts) this.#lost.end(lost);
      for (const lost of division.conflicts) this.#lost.begin(lost);
      place.division = division;
      const isGone = place.claims.length === 0;
      if (isGone) this.#places.delete(name);
      if (!isNew && !isGone) continue;
      const ports = isGone ? deletedPorts : addedPorts;
      for (const frontend of this.#ports?.get(name) ?? []) ports.push(frontend);
    }
    this.#dirty.clear();
    this.#changed = 0;
    return { pieces, addedPorts, deletedPorts };
  }

  piece(key: string): FrontendRules | undefined {
    return this.#division(key).byKey.get(key)?.rules;
  }

  /** The piece that has the port of a frontend, given by its key. */
  pieceAt(frontend: string): FrontendRules | undefined {
    return piecesIn(this.#division(frontend), frontend)[0]?.rules;
  }

  *pieces(): Generator<FrontendRules> {
    for (const { division } of this.#places.values()) for (const { rules } of division.pieces) yield rules;
  }

  piecesOf({ port, key: range }: FrontendRules): readonly FrontendRules[] {
    return piecesIn(this.#division(range), range).flatMap(({ rules }) =>
      rules.port.key === port.key ? [rules] : [],
    );
  }

  /** The ports that several service ports want. */
  conflicts(): LostFrontend[] {
    return [...this.#places.values()].flatMap(({ division }) => division.conflicts);
  }

  /** The service ports that want ports of a range, given by its key, without having them. */
  losersOf(range: string): readonly ServicePort[] {
    const { first, last } = rangeOf(range);
    const lost = this.#division(range).conflicts.filter(({ frontend }) => {
      const other = rangeOf(frontend);
      return other.first <= last && first <= other.last;
    });
    return [...new Set(lost.map(({ loser }) => loser))];
  }

  #division(frontend: string): Division {
    return this.#places.get(placeOfKey(frontend))?.division ?? UNDIVIDED;
  }

  #add(claim: Claim): void {
    if (this.#ports === undefined) {
      this.#ports = new Map();
      for (const frontend of this.#frontends()) addToSet(this.#ports, placeOfKey(frontend), frontend);
    }
    const name = placeOfKey(claim.rules.key);
    const place = this.#places.get(name) ?? {
      address: parseFrontendKey(name).address ?? "",
      claims: [],
      division: UNDIVIDED,
    };
    this.#places.set(name, place);
    place.claims.splice(indexOf(place, claim), 0, claim);
    this.#dirty.add(name);
  }

  #delete(claim: Claim): void {
    const name = placeOfKey(claim.rules.key);
    const place = this.#places.get(name);
    if (place === undefined) return;
    place.claims.splice(indexOf(place, claim), 1);
    this.#dirty.add(name);
  }
}

/** The index of a claim, or the one at which to insert it. */
function indexOf({ address, claims }: Place, claim: Claim): number {
  return lowerBound(
    claims,
    (other) =>
      (comparePrecedenceFor(address, other.rules.port, claim.rules.port) || other.first - claim.first) < 0,
  );
}

/** The ports of a frontend, given by its key. */
function rangeOf(frontend: string): PortInterval {
  const { port: first, lastPort: last = first } = parseFrontendKey(frontend);
  return { first, last };
}

function claimsOf(wanted: WantedIntervals | undefined): Claim[] {
  if (wanted === undefined) return [];
  const { intervals, lists } = wanted;
  return intervals.map((rules) => ({ rules, isSticky: lists.isSticky, ...rangeOf(rules.key) }));
}

/** The pieces with a port of a frontend, given by its key. */
function piecesIn({ pieces }: Division, frontend: string): readonly Claim[] {
  const { first, last } = rangeOf(frontend);
  const from = indexAt(pieces, first);
  let to = from;
  while ((pieces[to]?.first ?? Number.POSITIVE_INFINITY) <= last) to++;
  return pieces.slice(from, to);
}

/** Whether two renderings have the same ranges with the same precedence. */
function wantTheSame(a: WantedIntervals, b: WantedIntervals): boolean {
  if (a.intervals.length === 0 && b.intervals.length === 0) return true;
  return (
    a.port.service === b.port.service &&
    a.lists.isSticky === b.lists.isSticky &&
    a.intervals.length === b.intervals.length &&
    a.intervals.every((rules, index) => isSameRules(rules, b.intervals[index]))
  );
}

function isSameRules(a: FrontendRules, b: FrontendRules | undefined): boolean {
  return b !== undefined && a.key === b.key && a.way === b.way && a.guard === b.guard;
}

/** Ports that belong to a claim. */
interface Taken extends PortInterval {
  readonly claim: Claim;
}

/** Gives each port of a place to the first claim for it, in order of precedence. */
function divide({ claims }: Place): Division {
  const conflicts: LostFrontend[] = [];
  /** Ascending; no two overlap. */
  const taken: Taken[] = [];
  const divided = claims.slice(0, MOST_RANGES_OF_ADDRESS);
  for (const claim of divided) {
    const from = indexAt(taken, claim.first);
    const filled: Taken[] = [];
    let next = claim.first;
    let to = from;
    const winners = new Set<Claim>();
    for (let other = taken[to]; other !== undefined && other.first <= claim.last; other = taken[++to]) {
      if (other.first > next) filled.push({ first: next, last: other.first - 1, claim });
      filled.push(other);
      next = other.last + 1;
      if (winners.has(other.claim) || winners.size === MOST_WINNERS) continue;
      winners.add(other.claim);
      conflicts.push(conflictOf(claim, other, other.claim));
    }
    if (next <= claim.last) filled.push({ first: next, last: claim.last, claim });
    taken.splice(from, to - from, ...filled);
  }
  const youngest = divided.at(-1);
  for (const claim of claims.slice(MOST_RANGES_OF_ADDRESS, MOST_RANGES_OF_ADDRESS + MOST_REPORTED)) {
    if (youngest !== undefined) conflicts.push(conflictOf(claim, claim, youngest));
  }
  const pieces = taken.map(({ first, last, claim: { isSticky, rules } }): Claim => {
    return { first, last, isSticky, rules: atInterval(rules, { first, last }) };
  });
  return { pieces, byKey: new Map(pieces.map((piece) => [piece.rules.key, piece])), conflicts };
}

/** The index of the first item that does not end before a port. */
function indexAt(taken: readonly PortInterval[], port: number): number {
  return lowerBound(taken, ({ last }) => last < port);
}

function conflictOf(claim: Claim, lost: PortInterval, by: Claim): LostFrontend {
  const range = { first: Math.max(claim.first, lost.first), last: Math.min(claim.last, lost.last) };
  return { frontend: intervalKey(claim.rules.key, range), winner: by.rules.port, loser: claim.rules.port };
}

function changesOf(before: Division, after: Division): readonly PieceChange[] {
  const gone = new Map(before.byKey);
  const changes: PieceChange[] = [];
  for (const piece of after.pieces) {
    const known = gone.get(piece.rules.key);
    gone.delete(piece.rules.key);
    const isSamePort = known?.rules.port.key === piece.rules.port.key && known.isSticky === piece.isSticky;
    if (!isSamePort || !isSameRules(known.rules, piece.rules))
      changes.push({ before: known?.rules, after: piece.rules });
  }
  for (const { rules } of gone.values()) changes.push({ before: rules, after: undefined });
  return changes;
}
