import type { Family } from "../base/family.ts";
import { firstSorted, sortedEntries } from "../base/first-sorted.ts";
import { addToGroup } from "../base/group-by.ts";
import type { ServicePortKey } from "../model/ids.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import { REFUSALS } from "./chain-names.ts";
import { keepChain } from "./chain-roles.ts";
import { DeltaTracker } from "./delta-tracker.ts";
import { areLong, isWithoutEndpoints } from "./endpoint-list.ts";
import { EndpointLists } from "./endpoint-lists.ts";
import { type FrontendKind, kindOf, PORTS } from "./frontend-kinds.ts";
import { FrontendOwners } from "./frontend-owners.ts";
import type { FrontendRules } from "./frontend-rules.ts";
import type { DividedIntervals } from "./interval-frontends.ts";
import { ANY_ADDRESS, frontendKey, idOfKey, nodePortKey } from "./keys.ts";
import { ListIds, listId } from "./list-ids.ts";
import { LostFrontends } from "./lost-frontends.ts";
import {
  type DesiredElement,
  drawMethodsIn,
  type FamilyContext,
  type FrontendElements,
  flowtableOf,
  type IntervalFrontends,
  intervalsIn,
  kindsIn,
  type RulesetPart,
} from "./node-context.ts";
import { OptionalParts } from "./optional-parts.ts";
import { frontendClientsOf, type ServicePortRules } from "./service-port-rules.ts";
import { SOURCE_RANGES_PART, setSpecs } from "./set-specs.ts";
import { NO_ENDPOINTS, NODEPORT_IPS, PORT_PROTOCOLS } from "./sets.ts";
import { SharedObjects } from "./shared-objects.ts";
import { SourceRangeLists } from "./source-range-lists.ts";
import { MOST_DELETED, StaleElements } from "./stale-elements.ts";

/** A frontend that more than one service port wants. */
export interface Conflict {
  readonly family: Family;
  /** `10.96.0.10 . tcp . 53`, or `0.0.0.0 . tcp . 30080` for a NodePort. */
  readonly frontend: string;
  readonly winner: ServicePort;
  /** In the order of succession. */
  readonly losers: readonly ServicePort[];
}

/**
 * The desired ruleset of one family, made from the rules of all service ports, and the part of it that the
 * kernel does not have yet. It depends only on these rules, not on their history: docs/dev/design.md
 * ("No history") has the exceptions.
 */
export class FamilyState {
  readonly #tracker: DeltaTracker;
  readonly #rules = new Map<ServicePortKey, ServicePortRules>();
  /** For each service port that changed since the last commit: its committed rules; undefined for none. */
  readonly #committedRules = new Map<ServicePortKey, ServicePortRules | undefined>();
  readonly #lost = new LostFrontends();
  /** The number of frontends that service ports want but others have, and the Services that want them. */
  readonly lost: Pick<LostFrontends, "count" | "services"> = this.#lost;
  readonly #frontends = new FrontendOwners(this.#lost);
  readonly #parts: OptionalParts;
  readonly #nodePorts = new Set<string>();
  /** The keys of all NodePorts of service ports, with and without endpoints; live. */
  readonly nodePorts: ReadonlySet<string> = this.#nodePorts;
  #nodePortsRevision = 0;
  readonly #shared: SharedObjects;
  /** Elements of long lists that nothing leads to any more; source ranges have their own. */
  readonly #stale = new StaleElements();
  readonly #lists: EndpointLists;
  /** All lists of source ranges. Those that no frontend uses any more are deleted later. */
  readonly sourceRanges: SourceRangeLists;
  /** The elements of features for frontends. */
  readonly #ofFeatures: readonly FrontendElements[];
  /** The kinds of frontends, in the order in which rules look them up. */
  readonly kinds: readonly FrontendKind[];
  /** The intervals that service ports may have; undefined if no feature has them. */
  readonly intervals: IntervalFrontends | undefined;
  /** Undefined without this feature. */
  readonly #dividedIntervals: DividedIntervals | undefined;
  #context: FamilyContext;

  /** @param ids known ids of service ports; none if absent */
  constructor(context: FamilyContext, ids = new ListIds(context.maxStickyPorts)) {
    this.#tracker = new DeltaTracker(context.family, setSpecs(context), flowtableOf(context));
    this.#shared = new SharedObjects(this.#tracker);
    this.kinds = kindsIn(context);
    this.#lists = new EndpointLists(this.#tracker, this.#shared, this.#stale, ids, this.kinds);
    this.sourceRanges = new SourceRangeLists(this.#tracker);
    const numberOf = (id: string) => this.sourceRanges.numberOf(id);
    this.#ofFeatures = context.features.flatMap(
      ({ frontendElements }) => frontendElements?.({ table: this.#tracker, numberOf }) ?? [],
    );
    this.#context = context;
    this.intervals = intervalsIn(context);
    const explicitPorts = () => [...this.#frontends.owners.keys(), ...this.#context.apiServers];
    this.#dividedIntervals = this.intervals?.divide(explicitPorts, this.#lost);
    this.#parts = new OptionalParts(this.#tracker, context);
    this.setContext(context);
  }

  /** The desired table; live: it changes with the state. */
  get table(): Table {
    return this.#tracker.table;
  }

  /** The ids of service ports. */
  get ids(): ListIds {
    return this.#lists.ids;
  }

  /**
   * Replaces everything that does not come from Services. The caller must then render all service ports
   * again.
   */
  setContext(context: FamilyContext): void {
    const { apiServers: before } = this.#context;
    this.#context = context;
    for (const key of new Set([...before, ...context.apiServers])) this.#updateExplicitPort(key);
    this.#parts.setContext(context);
    this.#replaceKeys(PORT_PROTOCOLS, PROTOCOLS_WITH_PORTS);
    const addresses = context.nodePorts.kind === "addresses" ? context.nodePorts.addresses : [];
    this.#replaceKeys(NODEPORT_IPS, new Set(addresses.toSorted()));
  }

  /** Replaces the elements of the set that a feature fills itself, if it is enabled. */
  setKeys(feature: string, keys: ReadonlySet<string>): void {
    const part = this.features.find(({ name }) => name === feature);
    if (part?.ownSet === undefined) return;
    const isFixed = part.isAlways?.(this.#context) === true;
    if (!isFixed && keys.size > 0) this.#parts.declare(feature, true);
    this.#replaceKeys(part.ownSet, keys);
    if (!isFixed && keys.size === 0) this.#parts.declare(feature, false);
  }

  /** Replaces the rules of a service port. Call {@link FamilyState.divideIntervals} afterwards. */
  put(rules: ServicePortRules): void {
    const { key } = rules.port;
    // If it loses all endpoints and its lists are long, it is removed first: then their elements become stale
    // instead of leaving at once.
    if (isWithoutEndpoints(rules.lists) && areLong(this.#rules.get(key)?.lists)) this.remove(key);
    const before = this.#rules.get(key);
    this.#parts.use(rules);
    this.#noteCommitted(key, before);
    this.#rules.set(key, rules);
    for (const element of sharedElements(rules)) this.#shared.addElement(element);
    // Before the frontends, whose elements have the ids of these lists.
    this.#lists.replace(key, rules.lists);
    for (const frontend of rules.frontends) this.#setCandidate(frontend.key, before?.port, frontend);
    if (before !== undefined)
      this.#withdraw(before, new Set(rules.frontends.map((frontend) => frontend.key)));
    this.#dividedIntervals?.replace(before, rules);
  }

  /** Removes a service port. Call {@link FamilyState.divideIntervals} afterwards. */
  remove(key: ServicePortKey): void {
    const rules = this.#rules.get(key);
    if (rules === undefined) return;
    this.#noteCommitted(key, rules);
    this.#rules.delete(key);
    this.#parts.remove(key);
    this.#withdraw(rules, new Set());
    this.#dividedIntervals?.replace(rules, undefined);
  }

  /**
   * Divides ports among intervals again if these or explicit ports changed, and deletes the parts of the
   * table that no service port needs any longer. Called after many changes.
   * @returns whether any interval changed
   */
  divideIntervals(): boolean {
    const { pieces = [], addedPorts = [], deletedPorts = [] } = this.#dividedIntervals?.update() ?? {};
    for (const { before, after } of pieces) this.#replaceFrontend(before, after);
    for (const port of addedPorts) this.#setExplicitPort(port, true);
    for (const port of deletedPorts) this.#setExplicitPort(port, false);
    // Until stale elements have left, their sets stay.
    if (!this.#stale.isAny) this.#parts.cleanUp(this.sourceRanges.isAny);
    return pieces.length > 0;
  }

  /** The enabled features that add something to tables. */
  get features(): readonly RulesetPart[] {
    return this.#context.features;
  }

  /** Whether the node's own addresses do not serve intervals. */
  get areIntervalsVirtual(): boolean {
    return this.intervals?.areVirtual(this.#context) ?? false;
  }

  /** Whether the table has what a feature adds to it. */
  hasPart(feature: RulesetPart): boolean {
    return this.#parts.has(feature);
  }

  /** The rules of a service port; undefined if there are none. */
  servicePortRules(key: ServicePortKey): ServicePortRules | undefined {
    return this.#rules.get(key);
  }

  /** The service port that has a frontend, given by its key: see {@link FrontendRules}. */
  ownerOf(frontend: string): ServicePort | undefined {
    const owner = this.#frontends.owners.get(frontend);
    if (owner !== undefined) return owner.port;
    // The service port may have changed or gone since ports were divided: then its piece has the earlier one.
    const portKey = this.#dividedIntervals?.piece(frontend)?.port.key;
    return portKey && this.#rules.get(portKey)?.port;
  }

  /**
   * The frontend of a destination and the service port that has it; undefined if there is none. For a port
   * in an interval, `key` names the piece of the interval that contains it.
   * @param hasNodePorts whether NodePorts answer at the address
   */
  frontendAt(
    address: string,
    protocol: string,
    port: number,
    hasNodePorts: boolean,
  ): { readonly key: string; readonly port: ServicePort } | undefined {
    const own = frontendKey(address, protocol, port);
    const explicit = hasNodePorts ? [own, nodePortKey(this.table.family, protocol, port)] : [own];
    // API servers take precedence over intervals.
    const isServer = this.#context.apiServers.includes(own);
    const piece = isServer ? undefined : this.#dividedIntervals?.pieceAt(own)?.key;
    for (const key of [...explicit, ...(piece === undefined ? [] : [piece])]) {
      const owner = this.ownerOf(key);
      if (owner !== undefined) return { key, port: owner };
    }
    return undefined;
  }

  /** The pieces of an interval that its service port has: others may have some of its ports. */
  piecesOf(interval: FrontendRules): readonly FrontendRules[] {
    return this.#dividedIntervals?.piecesOf(interval) ?? [];
  }

  /** The service port to which the id of a list or endpoint belongs. */
  ownerOfList(id: number): ServicePort | undefined {
    const key = this.#lists.ownerOf(id);
    return key && this.#rules.get(key)?.port;
  }

  /** The service port that an element belongs to; undefined for elements of the node and shared ones. */
  ownerOfElement(key: string): ServicePort | undefined {
    const id = idOfKey(key);
    return id === undefined ? this.ownerOf(key) : this.ownerOfList(id);
  }

  allServicePortRules(): Iterable<ServicePortRules> {
    return this.#rules.values();
  }

  /** Increases whenever a NodePort changes its owner or rules. */
  get nodePortsRevision(): number {
    return this.#nodePortsRevision;
  }

  /** The changes of conflicts since the last call. Call {@link FamilyState.divideIntervals} before. */
  takeConflictChanges(): ReturnType<LostFrontends["take"]> {
    return this.#lost.take((frontend) => this.#frontends.owners.get(frontend)?.port);
  }

  /**
   * The frontends that several service ports want, sorted. Searches all frontends, so only requests use it.
   * @param most maximum number to return; all if absent
   */
  conflicts(most = Number.POSITIVE_INFINITY): Conflict[] {
    const family = this.table.family;
    const explicit = firstSorted(this.#frontends.conflicts, most, ([frontend]) => frontend);
    const ofIntervals = firstSorted(this.#dividedIntervals?.conflicts() ?? [], most, (one) => one.frontend);
    const all = [
      ...explicit.map(([frontend, candidates]) => {
        const [winner, ...losers] = candidates.map(({ port }) => port) as [ServicePort, ...ServicePort[]];
        return { family, frontend, winner, losers };
      }),
      ...ofIntervals.map(({ frontend, winner, loser }) => ({ family, frontend, winner, losers: [loser] })),
    ];
    return firstSorted(all, most, ({ frontend }) => frontend);
  }

  /** The service ports that lost a frontend, or part of an interval, in the order of succession. */
  losersOf(frontend: string): readonly ServicePort[] {
    if (kindOf(frontend, this.kinds) !== PORTS) return this.#dividedIntervals?.losersOf(frontend) ?? [];
    return (this.#frontends.conflicts.get(frontend) ?? []).slice(1).map(({ port }) => port);
  }

  /** The service ports whose rules are not in the kernel yet, sorted, with their committed rules. */
  uncommitted(): { readonly key: ServicePortKey; readonly before: ServicePortRules | undefined }[] {
    return sortedEntries(this.#committedRules).map(([key, before]) => ({ key, before }));
  }

  /** A copy of the table as last committed. */
  committedTable(): Table {
    return this.#tracker.committedTable();
  }

  /**
   * Does {@link SourceRangeLists.prepare} for a service port: all its frontends with source ranges have the
   * same.
   * @returns whether {@link FamilyState.put} causes no more work for these than `most`
   */
  prepareSourceRanges({ frontends }: ServicePortRules, most: number): boolean {
    const guard = frontends.find((frontend) => frontend.guard !== undefined)?.guard;
    if (guard === undefined) return true;
    this.#parts.declare(SOURCE_RANGES_PART, true);
    return this.sourceRanges.prepare(guard, most);
  }

  /** The number of the source ranges of a frontend, as in elements; undefined for none. */
  sourceRangeListOf({ guard }: FrontendRules): string | undefined {
    return guard && this.sourceRanges.numberOf(guard.id);
  }

  /** Whether there are elements that nothing leads to any longer. */
  get hasStale(): boolean {
    return this.#stale.isAny || this.sourceRanges.stale > 0;
  }

  /** Deletes some stale elements. @param least minimum number, apart from source ranges */
  deleteStale(least = 0): void {
    this.#stale.delete(Math.max(MOST_DELETED, least));
    this.sourceRanges.deleteStale();
  }

  /** Gives service ports and lists of source ranges the numbers that the kernel's table has for them. */
  adoptIds(actual: Table): void {
    this.#keepChains(actual);
    const frontends = new Map<ServicePortKey, FrontendRules[]>();
    for (const rules of this.#ownedFrontends()) {
      if (rules.way !== undefined) addToGroup(frontends, rules.port.key, rules);
    }
    for (const key of this.#lists.adoptIds(actual, frontends)) {
      for (const rules of frontends.get(key) ?? []) this.#putListOf(rules);
    }
    if (!this.sourceRanges.adopt(actual)) return;
    for (const rules of this.#ownedFrontends()) this.#putSourceRangeList(rules);
    for (const elements of this.#ofFeatures) elements.renumbered();
  }

  /** Gives the endpoints of service ports the numbers and ids that the kernel's table has for them. */
  adoptPlacement(actual: Table, keys: Iterable<ServicePortKey>): void {
    this.#lists.adoptPlacement(actual, keys);
  }

  /** The changes that are not in the kernel yet; undefined if there are none. */
  pending(): TableDelta | undefined {
    return this.#tracker.pending();
  }

  /** As {@link DeltaTracker.work}, with one for each interval that waits to be divided. */
  get work(): number {
    return this.#tracker.work + (this.#dividedIntervals?.changed ?? 0);
  }

  /** Records that the kernel has the whole table. */
  markCommitted(): void {
    this.#tracker.markCommitted();
    this.ids.markCommitted();
    this.sourceRanges.markCommitted();
    this.#committedRules.clear();
  }

  /** Keeps the balancing chains that the kernel's table has: a table never deletes them. */
  #keepChains(actual: Table): void {
    const kinds = this.kinds.filter((kind) => kind === PORTS || this.table.sets.has(kind.lists));
    const methods = drawMethodsIn(this.#context);
    for (const name of actual.chains.keys())
      for (const kind of kinds) keepChain(this.#tracker, name, methods, kind);
  }

  /** The frontends and pieces of intervals that service ports have. */
  *#ownedFrontends(): Generator<FrontendRules> {
    yield* this.#frontends.owners.values();
    yield* this.#dividedIntervals?.pieces() ?? [];
  }

  #putSourceRangeList(rules: FrontendRules): void {
    const number = this.sourceRangeListOf(rules);
    if (number !== undefined)
      this.#tracker.setElement(kindOf(rules.key, this.kinds).sourceRangeLists, rules.key, number);
  }

  /** Keeps the rules before the first change since the last commit. */
  #noteCommitted(key: ServicePortKey, rules: ServicePortRules | undefined): void {
    if (!this.#committedRules.has(key)) this.#committedRules.set(key, rules);
  }

  /**
   * Removes former rules: their shared elements, and the rules as candidates for frontends not in `kept`.
   * @param kept the frontends of the new rules; none if the service port goes
   */
  #withdraw(rules: ServicePortRules, kept: ReadonlySet<string>): void {
    for (const { key } of rules.frontends) {
      if (!kept.has(key)) this.#setCandidate(key, rules.port, undefined);
    }
    const shared = sharedElements(rules);
    if (kept.size === 0 && areLong(rules.lists)) this.#stale.add(this.#shared.dropping(shared));
    else for (const element of shared) this.#shared.dropElement(element);
  }

  #setCandidate(key: string, before: ServicePort | undefined, after: FrontendRules | undefined): void {
    const { from, to } = this.#frontends.replace(key, before, after);
    if (from === to) return;
    if ((from === undefined) !== (to === undefined)) this.#updateExplicitPort(key);
    if (key.startsWith(`${ANY_ADDRESS[this.table.family]} `)) this.#setNodePort(key, to !== undefined);
    this.#replaceFrontend(from, to);
  }

  #setNodePort(key: string, isThere: boolean): void {
    this.#nodePortsRevision += 1;
    if (isThere) this.#nodePorts.add(key);
    else this.#nodePorts.delete(key);
  }

  /** Records that an explicit port came or went: the frontend of a service port, or an API server. */
  #updateExplicitPort(key: string): void {
    const isThere = this.#frontends.owners.has(key) || this.#context.apiServers.includes(key);
    const hasIntervals = this.#dividedIntervals?.setPort(key, isThere);
    if (hasIntervals) this.#setExplicitPort(key, isThere);
  }

  #setExplicitPort(key: string, isThere: boolean): void {
    const set = this.intervals?.kind.explicitPorts;
    if (set !== undefined) this.#tracker.setElement(set, key, isThere ? "" : undefined);
  }

  /** Replaces the rules of a frontend, or of a piece of an interval. */
  #replaceFrontend(from: FrontendRules | undefined, to: FrontendRules | undefined): void {
    const key = (to ?? from)?.key ?? "";
    const kind = kindOf(key, this.kinds);
    const rangeList = to?.guard && this.sourceRanges.add(to.guard);
    this.#tracker.setElement(NO_ENDPOINTS, key, to?.refusal && REFUSALS[to.refusal]);
    if (rangeList !== undefined || from?.guard !== undefined)
      this.#tracker.setElement(kind.sourceRangeLists, key, rangeList);
    // The new use before the end of the old one, so that what both use is not written twice.
    const lists = to && this.#rules.get(to.port.key)?.lists;
    if (to?.way === undefined || lists === undefined) this.#tracker.deleteElement(kind.lists, key);
    else this.#putList(key, this.#lists.add(to.port.key, lists, to.way, kind));
    if (from?.way !== undefined) this.#lists.remove(from.port.key, from.way, kind);
    if (kind === PORTS)
      for (const elements of this.#ofFeatures)
        elements.replace(from && frontendClientsOf(from), to && frontendClientsOf(to));
    if (from?.guard !== undefined) this.sourceRanges.remove(from.guard);
  }

  #putList(key: string, id: number): void {
    this.#tracker.setElement(kindOf(key, this.kinds).lists, key, String(id));
  }

  /** Writes the id of a frontend's list again. */
  #putListOf({ port, key, way }: FrontendRules): void {
    const id = this.ids.of(port.key);
    if (way !== undefined && id !== undefined) this.#putList(key, listId(id, way));
  }

  /** Replaces the keys of a set; does nothing without the set. */
  #replaceKeys(set: string, wanted: ReadonlySet<string>): void {
    const known = this.table.sets.get(set)?.elements;
    if (known === undefined) return;
    for (const key of [...known.keys()]) if (!wanted.has(key)) this.#tracker.deleteElement(set, key);
    for (const key of wanted) this.#tracker.setElement(set, key, "");
  }
}

const PROTOCOLS_WITH_PORTS: ReadonlySet<string> = new Set(["sctp", "tcp", "udp"]);

/** The elements of a service port that others may share, including those of features. */
function* sharedElements({ shared, ofFeatures }: ServicePortRules): Generator<DesiredElement> {
  yield* shared;
  for (const { elements } of ofFeatures ?? []) yield* elements;
}
