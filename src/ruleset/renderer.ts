import { FAMILIES } from "../base/family.ts";
import { portNameOf, SlicesByPort } from "../model/endpoint.ts";
import { chooseEndpoints } from "../model/endpoint-choice.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { excessText } from "../model/service-budget.ts";
import type { ServicePort } from "../model/service-port.ts";
import { ejectionFor, mayEject } from "./ejection.ts";
import { contextOf, drawsIn, hasIntervals, type NodeContext } from "./node-context.ts";
import { AllPorts, PortReasons, type ReasonsOfService } from "./port-reasons.ts";
import { RulesetState } from "./ruleset-state.ts";
import { limitExceededBy, renderServicePort } from "./service-port-rules.ts";
import type { Served } from "./shared-budgets.ts";

/** Service ports that get no rules. */
type Excluded = Pick<ReadonlySet<ServicePortKey>, "has">;

const NONE: Excluded = new Set();

/**
 * The progress of a waiting Service. At a start all Services wait, so rarely needed parts are created on
 * demand.
 */
interface Progress {
  /** Maximum number of elements since its rules were complete: deleting them takes as long as adding. */
  elements: number;
  /** The names of the ports that changed since the last update that rendered some of its service ports. */
  changed: ReadonlySet<string> | "all" | "none";
  /** The service ports that this update did not come to: they are rendered first. */
  unfinished: ReadonlySet<ServicePortKey> | undefined;
  /** The service ports without rules, with the limit that they exceed. */
  excess: Map<ServicePortKey, string> | undefined;
}

/**
 * Number of service ports and endpoints that are rendered in the time that one element takes to reach the
 * kernel: 10 us each, and 75 us (2 cores, 6.18).
 */
const VISITS_PER_ELEMENT = 8;

const NO_PORTS: readonly ServicePort[] = [];
const NOT_SERVED: Served = { ports: NO_PORTS, slices: [] };
const NO_EXCESS: readonly ReasonsOfService[] = [];

/** Keeps a ruleset up to date with an object cache: renders only changed Services. */
export class Renderer {
  readonly state: RulesetState;
  readonly #cache: ObjectCache;
  #nodeContext: NodeContext;
  /** The service ports of each Service in the state, and its waiting ones. */
  readonly #ports = new Map<ServiceName, readonly ServicePort[]>();
  /** By Service: its ports without rules, with the limit that they exceed. */
  readonly #excessOf = new Map<ServiceName, readonly ReasonsOfService[]>();
  /** The same for all Services; undefined after a change. */
  #excess: PortReasons | undefined;
  /** The Services that older ones leave too few elements, as of the last update. */
  #shortfalls: ReadonlyMap<ServiceName, unknown> = new Map();
  #rendered = new Set<ServiceName>();
  /** The changed Services without complete rules, with their progress. */
  readonly #waiting = new Map<ServiceName, Progress>();
  /** Whether removed service ports with session affinity keep their list ids until intervals are divided. */
  #holdsIds = false;
  /** Whether the last update divided intervals again: the next one then leaves room for others. */
  #hasDivided = false;
  /** Number of service ports and endpoints that this update has rendered. */
  #visits = 0;

  constructor(cache: ObjectCache, nodeContext: NodeContext) {
    this.#cache = cache;
    this.#nodeContext = nodeContext;
    this.state = new RulesetState(nodeContext);
  }

  /**
   * Replaces the node context and renders all Services again, in steps as {@link Renderer.updating}. The
   * declarations of sets (counters, size of the affinity map) never change in a renderer.
   * @param excluded service ports that get no rules
   */
  *changingContext(nodeContext: NodeContext, excluded = NONE): Generator<undefined> {
    this.#nodeContext = nodeContext;
    for (const context of nodeContext) this.state.families[context.family]?.setContext(context);
    const names = this.#allServices();
    for (const name of names) this.#addWaiting(name, 0);
    yield* this.#renderWaiting(names, excluded, Number.POSITIVE_INFINITY);
  }

  /**
   * Renders Services again, in steps of one service port: a Service may have thousands of endpoints at a
   * hundred ports. If only slices changed, renders only the service ports that they name.
   * @param dirty the Services that changed, themselves or in their slices
   * @param excluded service ports that get no rules
   * @param most maximum work, as a number of elements, exceeded by at most one service port; the rest waits
   * for the next call. Rendering counts, too, even if it changes no element.
   */
  *updating(
    dirty: Iterable<ServiceName>,
    excluded = NONE,
    most = Number.POSITIVE_INFINITY,
  ): Generator<undefined> {
    yield* this.#renderWaiting([...dirty].sort(), excluded, most);
  }

  /** Does {@link Renderer.updating} in one step. */
  update(dirty: Iterable<ServiceName>, excluded = NONE): void {
    for (const _ of this.updating(dirty, excluded));
  }

  /** The service ports without rules, each with the limit that it exceeds. A new map after each change. */
  get excess(): PortReasons {
    this.#excess ??= new PortReasons(new Map(this.#excessOf));
    return this.#excess;
  }

  /** The Services that the last update completed: the given ones, and others whose shared budgets changed. */
  get rendered(): ReadonlySet<ServiceName> {
    return this.#rendered;
  }

  /** The changed Services without complete rules, in the order that they wait. */
  get waiting(): ReadonlySet<ServiceName> {
    return new Set(this.#waiting.keys());
  }

  *#renderWaiting(dirty: readonly ServiceName[], excluded: Excluded, most: number): Generator<undefined> {
    const { budgets } = this.state;
    this.state.deleteStaleSourceRanges();
    this.#visits = 0;
    for (const name of dirty) {
      const before = budgets.elementsOf(name);
      const [service, slices] = [this.#cache.service(name), this.#cache.slices(name)];
      const changed = budgets.count(name, service, slices, this.#nodeContext);
      this.#addWaiting(name, Math.max(before, this.#sizeOf(name)), changed);
      yield;
    }
    for (const name of budgets.decide(this.#nodeContext)) this.#addWaiting(name, this.#sizeOf(name));
    this.#rendered = new Set();
    yield* most === Number.POSITIVE_INFINITY ? this.#renderAll(excluded) : this.#renderSome(excluded, most);
    if (budgets.shortfalls !== this.#shortfalls)
      for (const name of budgets.shortfalls.keys()) this.#setExcess(name, this.#ownExcessOf(name));
    this.#shortfalls = budgets.shortfalls;
    this.#divideIntervals();
  }

  /** The elements of a Service, with those of its source ranges. */
  #sizeOf(name: ServiceName): number {
    return this.state.budgets.elementsOf(name) + this.#sourceRangesOf(name);
  }

  #sourceRangesOf(name: ServiceName): number {
    const { ip = [], ip6 = [] } = this.#cache.service(name)?.loadBalancerSourceRanges ?? {};
    return ip.length + ip6.length;
  }

  /**
   * Records that a Service must be rendered. It keeps its place in the order, and so do its service ports:
   * however often it changes, each of them has its turn.
   * @param changed the names of the ports that changed
   */
  #addWaiting(name: ServiceName, elements: number, changed: ReadonlySet<string> | "all" = "all"): void {
    const known = this.#waiting.get(name);
    if (known === undefined) {
      this.#waiting.set(name, { elements, changed, unfinished: undefined, excess: undefined });
      return;
    }
    known.elements = Math.max(elements, known.elements);
    if (changed === "all") {
      known.changed = "all";
      known.excess = undefined;
    } else if (known.changed !== "all") {
      known.changed = known.changed === "none" ? changed : new Set([...known.changed, ...changed]);
    }
  }

  /** Deletes before adding, as all list ids may be taken. */
  *#renderAll(excluded: Excluded): Generator<undefined> {
    const names = [...this.#waiting.keys()].sort();
    for (const name of names) if (this.#ports.has(name)) yield* this.#removeFormerPorts(name, excluded);
    if (this.#holdsIds) this.#divideIntervals();
    for (const name of names) yield* this.#renderService(name, excluded, Number.POSITIVE_INFINITY);
  }

  /**
   * Renders until there is work for `most` elements. Half of them are for the Services with the fewest
   * elements, so that they do not wait for large ones. The rest are for the Service that waits longest, so
   * that it is completed. A change of intervals may cost as much as all of them, so two such changes never
   * follow each other directly.
   */
  *#renderSome(excluded: Excluded, most: number): Generator<undefined> {
    const isPause = this.#hasDivided;
    this.#hasDivided = false;
    const elementsOf = (name: ServiceName) => this.#waiting.get(name)?.elements ?? 0;
    const oldestFirst = [...this.#waiting.keys()].filter(
      (name) => !(isPause && this.#changesIntervals(name, excluded)),
    );
    const smallestFirst = oldestFirst.toSorted((a, b) => elementsOf(a) - elementsOf(b));
    for (const [names, limit] of [
      [smallestFirst, most / 2],
      [oldestFirst, most],
    ] as const) {
      for (const name of names) {
        if (this.#isFull(limit)) break;
        yield* this.#renderService(name, excluded, limit);
      }
    }
  }

  /** Whether rendering a Service changes its intervals of ports, or may do so. */
  #changesIntervals(name: ServiceName, excluded: Excluded): boolean {
    const { ports } = this.#served(name, excluded);
    const knownOf = ({ family, key }: ServicePort) =>
      this.state.families[family]?.servicePortRules(key)?.port;
    const changes = (port: ServicePort) => {
      const known = knownOf(port);
      return known?.service !== port.service && [port, known].some((one) => this.#hasIntervals(one));
    };
    return (
      ports.some(changes) || this.#gonePorts(name, ports).some((port) => this.#hasIntervals(knownOf(port)))
    );
  }

  #hasIntervals(port: ServicePort | undefined): boolean {
    const context = port && contextOf(this.#nodeContext, port.family);
    return port !== undefined && context !== undefined && hasIntervals(port, context);
  }

  #divideIntervals(): void {
    this.#holdsIds = false;
    if (this.state.divideIntervals()) this.#hasDivided = true;
  }

  #allServices(): ServiceName[] {
    // A Service may be deleted while it waits.
    return [
      ...new Set([...this.#cache.serviceNames(), ...this.#ports.keys(), ...this.#waiting.keys()]),
    ].sort();
  }

  /** Removes the ports that a Service lost, and those that lose session affinity. */
  *#removeFormerPorts(name: ServiceName, excluded: Excluded): Generator<undefined> {
    const { ports } = this.#served(name, excluded);
    const wanted = new Map(ports.map((port) => [port.key, port]));
    for (const port of this.#ports.get(name) ?? NO_PORTS) {
      const after = wanted.get(port.key);
      if (after !== undefined && !this.#losesAffinity(after)) continue;
      this.#removePort(port);
      yield;
    }
  }

  /**
   * Renders the due service ports of a Service that waits. Stops between two if enough elements are written,
   * or if no list id is left.
   */
  *#renderService(name: ServiceName, excluded: Excluded, most: number): Generator<undefined> {
    const progress = this.#waiting.get(name);
    if (progress === undefined) return;
    const { ports: wanted, slices } = this.#served(name, excluded);
    const gone = this.#gonePorts(name, wanted);
    this.#setPorts(name, gone.length === 0 ? wanted : [...gone, ...wanted]);
    for (const port of gone) {
      if (this.#isFull(most)) return;
      this.#removePort(port);
      yield;
    }
    const due = this.#due(wanted, progress);
    const byPort = new SlicesByPort(slices, new Set(due.map(({ spec }) => portNameOf(spec))));
    for (const [index, port] of due.entries()) {
      if (this.#isFull(most) || !this.#replacePort(port, byPort, progress, most)) {
        progress.changed = "none";
        progress.unfinished = new Set(due.slice(index).map(({ key }) => key));
        return;
      }
      yield;
    }
    this.#setPorts(name, wanted);
    const excess = this.#ownExcessOf(name);
    this.#setExcess(name, progress.excess === undefined ? excess : [...excess, progress.excess]);
    this.#waiting.delete(name);
    this.#rendered.add(name);
  }

  /** The service ports of a Service that have to be rendered, in this order. */
  #due(wanted: readonly ServicePort[], { changed, unfinished }: Progress): readonly ServicePort[] {
    // Each change renders a service port once: with portions, it would otherwise never be the last one.
    const hasChanged = (port: ServicePort, names: Progress["changed"]) =>
      typeof names !== "string" && (names.has(portNameOf(port.spec)) || this.#isDueWithAny(port));
    const due =
      changed === "all"
        ? wanted
        : wanted.filter((port) => unfinished?.has(port.key) || hasChanged(port, changed));
    if (unfinished === undefined) return due;
    const byKey = new Map(due.map((port) => [port.key, port]));
    const first = new Set([...unfinished].flatMap((key) => byKey.get(key) ?? []));
    return [...first, ...due.filter((port) => !first.has(port))];
  }

  /** Whether the rules of a service port depend on more than its Service and slices, or are not there. */
  #isDueWithAny(port: ServicePort): boolean {
    const context = contextOf(this.#nodeContext, port.family);
    const isThere = this.state.families[port.family]?.servicePortRules(port.key) !== undefined;
    return !isThere || (context !== undefined && mayEject(port, context));
  }

  #isFull(most: number): boolean {
    return most !== Number.POSITIVE_INFINITY && this.#work >= most;
  }

  /** The work of this update so far, as a number of elements. */
  get #work(): number {
    return this.state.work + this.#visits / VISITS_PER_ELEMENT;
  }

  /** @returns false if it has to wait for source ranges, or for the list id of a Service that waits, too */
  #replacePort(port: ServicePort, slices: SlicesByPort, progress: Progress, most: number): boolean {
    const context = contextOf(this.#nodeContext, port.family);
    const state = this.state.families[port.family];
    if (context === undefined || state === undefined) return true;
    const before = state.servicePortRules(port.key)?.port.service;
    const endpoints = slices.endpointsOf(port, context.place.name, drawsIn(context)?.shareOf);
    const choice = chooseEndpoints(port, endpoints, context.place, ejectionFor(port, this.#cache, context));
    const rules = renderServicePort(port, choice, context, before);
    this.#visits += 1 + endpoints.length;
    const excess = limitExceededBy(rules);
    if (excess !== undefined) {
      state.remove(port.key);
      progress.excess ??= new Map();
      progress.excess.set(port.key, excess);
      return true;
    }
    const hasId = () => state.ids.hasFor(port.key, rules.lists.isSticky);
    if (this.#holdsIds && !hasId()) this.#divideIntervals();
    if (!hasId() || !state.prepareSourceRanges(rules, most - this.#work)) return false;
    state.put(rules);
    progress.excess?.delete(port.key);
    return true;
  }

  #removePort({ family, key }: ServicePort): void {
    const state = this.state.families[family];
    const known = state?.servicePortRules(key)?.port;
    if (known === undefined) return;
    state?.remove(key);
    this.#holdsIds ||= known.service.affinitySeconds > 0 && this.#hasIntervals(known);
  }

  /** Whether a service port loses session affinity, and so needs another list id. */
  #losesAffinity({ family, key, service }: ServicePort): boolean {
    if (service.affinitySeconds > 0) return false;
    const known = this.state.families[family]?.servicePortRules(key);
    return known !== undefined && known.port.service.affinitySeconds > 0;
  }

  #gonePorts(name: ServiceName, wanted: readonly ServicePort[]): readonly ServicePort[] {
    const known = this.#ports.get(name);
    if (known === undefined || known === wanted) return NO_PORTS;
    const keys = new Set(wanted.map(({ key }) => key));
    return known.filter(
      ({ family, key }) => !keys.has(key) && this.state.families[family]?.servicePortRules(key),
    );
  }

  #setPorts(name: ServiceName, ports: readonly ServicePort[]): void {
    if (ports.length === 0) this.#ports.delete(name);
    else this.#ports.set(name, ports);
  }

  /** The ports of a Service that get rules, and its slices. */
  #served(name: ServiceName, excluded: Excluded): Served {
    const served = this.state.budgets.served(name) ?? NOT_SERVED;
    const ports = served.ports.filter(
      ({ family, key }) => this.state.families[family] !== undefined && !excluded.has(key),
    );
    return ports.length === served.ports.length ? served : { ports, slices: served.slices };
  }

  /** The ports of a Service that is not served, each with the reason; otherwise none. */
  #ownExcessOf(name: ServiceName): readonly ReasonsOfService[] {
    const { budgets, families } = this.state;
    const excess = budgets.excessOf(name);
    const service = budgets.unserved(name);
    if (excess === undefined || service === undefined) return NO_EXCESS;
    const programmed = FAMILIES.filter((family) => families[family] !== undefined);
    return [new AllPorts(service, programmed, excessText(excess))];
  }

  #setExcess(name: ServiceName, excess: readonly ReasonsOfService[]): void {
    if (excess.some(({ size }) => size > 0)) this.#excessOf.set(name, excess);
    else if (!this.#excessOf.delete(name)) return;
    this.#excess = undefined;
  }
}
