import { FAMILIES } from "../base/family.ts";
import { resultOf } from "../base/pieces.ts";
import { excessText } from "../model/budgets.ts";
import { portNameOf, SlicesByPort } from "../model/endpoint.ts";
import { chooseEndpoints, type EndpointChoice } from "../model/endpoint-choice.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { ServicePort } from "../model/service-port.ts";
import { ejectionFor, mayEject } from "./ejection.ts";
import { grownChoice } from "./endpoint-list.ts";
import type { FamilyState } from "./family-state.ts";
import { contextOf, drawsIn, type FamilyContext, hasIntervals, type NodeContext } from "./node-context.ts";
import { AllPorts, PortReasons, type ReasonsOfService } from "./port-reasons.ts";
import { RulesetState } from "./ruleset-state.ts";
import { limitExceededBy, renderServicePort, type ServicePortRules } from "./service-port-rules.ts";
import type { Served } from "./shared-budgets.ts";

/** The service ports that the kernel refuses, or that nft fails on, and that get no rules therefore. */
type Refused = Pick<ReadonlySet<ServicePortKey>, "has">;

const NONE: Refused = new Set();

/**
 * The progress of a waiting Service. At a start all Services wait, so rarely needed parts are created on
 * demand.
 */
interface Progress {
  /**
   * Its size, for the order of small Services first: the most elements it has had since its rules were last
   * complete, because deleting costs as much as adding.
   */
  elements: number;
  /**
   * What changed since an update last stopped among its service ports. A set: the ports with these names;
   * `#isDueWithAnyChange` has what else is due then, even if the set is empty. "none": nothing, so only
   * `unfinished` ones are due.
   */
  changed: ReadonlySet<string> | "all" | "none";
  /** The service ports that this update did not come to, or not to their end: they are rendered first. */
  unfinished?: ReadonlySet<ServicePortKey> | undefined;
  /** The first of them, if its rules are in the state with only a part of its endpoints. */
  growing?: RenderedPort | undefined;
  /** The service ports that exceed a limit, and get no rules. With the limit, as text. */
  excess?: Map<ServicePortKey, string> | undefined;
}

/** A service port with all of its endpoints. */
interface RenderedPort {
  readonly choice: EndpointChoice;
  readonly rules: ServicePortRules;
}

/**
 * Rendering one service port or endpoint takes 10 us, and sending one element to the kernel 75 us (2 cores,
 * 6.18): so 8 visits count as one element.
 */
const VISITS_PER_ELEMENT = 8;

/** Maximum number of endpoints of a service port that is rendered in one step: they take a few ms. */
const FEW = 1000;

const NO_PORTS: readonly ServicePort[] = [];
const NOT_SERVED: Served = { ports: NO_PORTS, slices: [] };
const NO_EXCESS: readonly ReasonsOfService[] = [];

/** Keeps a ruleset up to date with an object cache: renders only changed Services. */
export class Renderer {
  readonly state: RulesetState;
  readonly #cache: ObjectCache;
  #nodeContext: NodeContext;
  /** By Service: its service ports that are in the state or wait for their rules. */
  readonly #ports = new Map<ServiceName, readonly ServicePort[]>();
  /** By Service: its ports that exceed a limit, and get no rules. With the limit, as text. */
  readonly #excessOf = new Map<ServiceName, readonly ReasonsOfService[]>();
  /** The same for all Services; undefined after a change. */
  #excess: PortReasons | undefined;
  /** The Services for which older ones leave too few elements, as of the last update. */
  #shortfalls: ReadonlyMap<ServiceName, unknown> = new Map();
  #rendered = new Set<ServiceName>();
  /** The changed Services without complete rules, with their progress. */
  readonly #waiting = new Map<ServiceName, Progress>();
  /** Whether intervals still lead to the list ids of removed sticky service ports, until they are divided. */
  #intervalsHoldIds = false;
  /** Whether the last update divided intervals again: the next one then leaves room for others. */
  #hasDivided = false;
  /** Number of service ports and endpoints that this update has rendered. */
  #visits = 0;
  /** As `RulesetState.work`, after the last update. */
  #workOfLast = 0;

  constructor(cache: ObjectCache, nodeContext: NodeContext) {
    this.#cache = cache;
    this.#nodeContext = nodeContext;
    this.state = new RulesetState(nodeContext);
  }

  /**
   * Replaces the node context and renders all Services again, in steps as {@link Renderer.updating}. The
   * declarations of sets (counters, size of the affinity map) never change in a renderer.
   */
  *changingContext(nodeContext: NodeContext, refused = NONE): Generator<undefined> {
    this.#nodeContext = nodeContext;
    for (const context of nodeContext) this.state.families[context.family]?.setContext(context);
    const names = this.#allServices();
    // Marks all of their ports as changed; `#renderWaiting` sets the sizes.
    for (const name of names) this.#addWaiting(name, 0);
    yield* this.#renderWaiting(names, refused, Number.POSITIVE_INFINITY);
  }

  /**
   * Renders Services again, in steps that take a few ms: a Service may have thousands of endpoints at a
   * hundred ports. If only slices changed, renders only the service ports that they name.
   * @param dirty the Services that changed, themselves or in their slices
   * @param maxWork stops once this much is done, in elements; may exceed it by one service port. Rendering
   * counts, too, even if it changes no element. The rest waits for the next call.
   */
  *updating(
    dirty: Iterable<ServiceName>,
    refused = NONE,
    maxWork = Number.POSITIVE_INFINITY,
  ): Generator<undefined> {
    yield* this.#renderWaiting([...dirty].sort(), refused, maxWork);
  }

  /** Does {@link Renderer.updating} in one step. */
  update(dirty: Iterable<ServiceName>, refused = NONE): void {
    resultOf(this.updating(dirty, refused));
  }

  /** The service ports that exceed a limit, and get no rules. With the limit; a new map after each change. */
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

  *#renderWaiting(dirty: readonly ServiceName[], refused: Refused, maxWork: number): Generator<undefined> {
    const { budgets } = this.state;
    // At least as many as were added: so they cannot pile up, however often long lists come and go.
    this.state.deleteStale(this.#workOfLast);
    this.#visits = 0;
    for (const name of dirty) {
      const before = budgets.elementsOf(name);
      const [service, slices] = [this.#cache.service(name), this.#cache.slices(name)];
      const changedPorts = (yield* budgets.recounting(name, service, slices, this.#nodeContext)) ?? "all";
      this.#addWaiting(name, Math.max(before, this.#sizeOf(name)), changedPorts);
      yield;
    }
    const withOtherOutcome = budgets.decide(this.#nodeContext);
    for (const name of withOtherOutcome) this.#addWaiting(name, this.#sizeOf(name));
    this.#rendered = new Set();
    yield* maxWork === Number.POSITIVE_INFINITY
      ? this.#renderAllWaiting(refused)
      : this.#renderPortion(refused, maxWork);
    // Services that still get nothing were not rendered, but older ones may leave another amount now.
    if (budgets.shortfalls !== this.#shortfalls)
      for (const name of budgets.shortfalls.keys()) this.#setExcess(name, this.#budgetExcessOf(name));
    this.#shortfalls = budgets.shortfalls;
    this.#divideIntervals();
    this.#workOfLast = this.state.work;
  }

  /** The elements of a Service, with those of its source ranges. */
  #sizeOf(name: ServiceName): number {
    const { ip = [], ip6 = [] } = this.#cache.service(name)?.loadBalancerSourceRanges ?? {};
    return this.state.budgets.elementsOf(name) + ip.length + ip6.length;
  }

  /**
   * Records that a Service must be rendered. It keeps its place in the order, and so do its service ports:
   * however often it changes, each of them has its turn.
   * @param changed the names of the ports that changed
   */
  #addWaiting(name: ServiceName, elements: number, changed: ReadonlySet<string> | "all" = "all"): void {
    const known = this.#waiting.get(name);
    if (known === undefined) {
      this.#waiting.set(name, { elements, changed });
      return;
    }
    known.growing = undefined;
    known.elements = Math.max(elements, known.elements);
    if (changed === "all") {
      known.changed = "all";
      known.excess = undefined;
    } else if (known.changed !== "all") {
      known.changed = known.changed === "none" ? changed : new Set([...known.changed, ...changed]);
    }
  }

  /** First removes former ports, because every list id may be taken. */
  *#renderAllWaiting(refused: Refused): Generator<undefined> {
    const names = [...this.#waiting.keys()].sort();
    for (const name of names) if (this.#ports.has(name)) yield* this.#removeFormerPorts(name, refused);
    if (this.#intervalsHoldIds) this.#divideIntervals();
    for (const name of names) yield* this.#renderService(name, refused, Number.POSITIVE_INFINITY);
  }

  /**
   * Renders until `maxWork` is done. Half of it is for the Services with the fewest elements, so that they do
   * not wait for large ones. The rest is for the Service that waits longest, so that it is completed. A
   * single change of intervals may use up all of it, so two of these never follow each other directly.
   */
  *#renderPortion(refused: Refused, maxWork: number): Generator<undefined> {
    const skipsIntervals = this.#hasDivided;
    this.#hasDivided = false;
    const elementsOf = (name: ServiceName) => this.#waiting.get(name)?.elements ?? 0;
    const oldestFirst = [...this.#waiting.keys()].filter(
      (name) => !(skipsIntervals && this.#changesIntervals(name, refused)),
    );
    const smallestFirst = oldestFirst.toSorted((a, b) => elementsOf(a) - elementsOf(b));
    for (const [names, limit] of [
      [smallestFirst, maxWork / 2],
      [oldestFirst, maxWork],
    ] as const) {
      for (const name of names) {
        if (this.#isFull(limit)) break;
        yield* this.#renderService(name, refused, limit);
      }
    }
  }

  /** Whether rendering a Service changes its intervals of ports, or may do so. */
  #changesIntervals(name: ServiceName, refused: Refused): boolean {
    const { ports } = this.#served(name, refused);
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
    this.#intervalsHoldIds = false;
    if (this.state.divideIntervals()) this.#hasDivided = true;
  }

  #allServices(): ServiceName[] {
    // A Service may be deleted while it waits.
    return [
      ...new Set([...this.#cache.serviceNames(), ...this.#ports.keys(), ...this.#waiting.keys()]),
    ].sort();
  }

  /** Removes the ports that a Service lost, and those that lose session affinity. */
  *#removeFormerPorts(name: ServiceName, refused: Refused): Generator<undefined> {
    const { ports } = this.#served(name, refused);
    const losing = ports.filter((port) => this.#losesAffinity(port));
    for (const port of [...this.#gonePorts(name, ports), ...losing]) {
      this.#removePort(port);
      yield;
    }
  }

  /**
   * Renders the due service ports of a Service that waits. Stops between two of them if enough work is done,
   * or if one has to wait.
   */
  *#renderService(name: ServiceName, refused: Refused, maxWork: number): Generator<undefined> {
    const progress = this.#waiting.get(name);
    if (progress === undefined) return;
    const { ports: wanted, slices } = this.#served(name, refused);
    const gone = this.#gonePorts(name, wanted);
    // Until this Service is complete, a later update must still find the ports that are gone.
    this.#setPorts(name, gone.length === 0 ? wanted : [...gone, ...wanted]);
    for (const port of gone) {
      if (this.#isFull(maxWork)) return;
      this.#removePort(port);
      yield;
    }
    const due = this.#due(wanted, progress);
    const byPort = yield* SlicesByPort.reading(slices, new Set(due.map(({ spec }) => portNameOf(spec))));
    for (const [index, port] of due.entries()) {
      if (this.#isFull(maxWork) || !(yield* this.#replacingPort(port, byPort, progress, maxWork))) {
        progress.changed = "none";
        progress.unfinished = new Set(due.slice(index).map(({ key }) => key));
        return;
      }
      yield;
    }
    this.#setPorts(name, wanted);
    const excess = this.#budgetExcessOf(name);
    this.#setExcess(name, progress.excess === undefined ? excess : [...excess, progress.excess]);
    this.#waiting.delete(name);
    this.#rendered.add(name);
  }

  /** The service ports of a Service that have to be rendered, in this order. */
  #due(wanted: readonly ServicePort[], { changed, unfinished }: Progress): readonly ServicePort[] {
    // Ports of `#isDueWithAnyChange` are due once for each change, not in each update: otherwise a Service
    // that takes several updates would never be complete.
    const hasChanged = (port: ServicePort, names: Progress["changed"]) =>
      typeof names !== "string" && (names.has(portNameOf(port.spec)) || this.#isDueWithAnyChange(port));
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
  #isDueWithAnyChange(port: ServicePort): boolean {
    const context = contextOf(this.#nodeContext, port.family);
    const isThere = this.state.families[port.family]?.servicePortRules(port.key) !== undefined;
    return !isThere || (context !== undefined && mayEject(port, context));
  }

  #isFull(maxWork: number): boolean {
    return maxWork !== Number.POSITIVE_INFINITY && this.#work >= maxWork;
  }

  /** The work of this update so far, as a number of elements. */
  get #work(): number {
    return this.state.work + this.#visits / VISITS_PER_ELEMENT;
  }

  /**
   * Renders a service port again, in steps.
   * @returns false if it is not complete: its endpoints or source ranges are not all written yet, or no list
   * id is free until another waiting Service releases one
   */
  *#replacingPort(
    port: ServicePort,
    slices: SlicesByPort,
    progress: Progress,
    maxWork: number,
  ): Generator<undefined, boolean> {
    const context = contextOf(this.#nodeContext, port.family);
    const family = this.state.families[port.family];
    if (context === undefined || family === undefined) return true;
    const rendered =
      progress.growing?.rules.port === port
        ? progress.growing
        : yield* this.#rendering(port, slices, family, context);
    progress.growing = undefined;
    const { rules, choice } = rendered;
    const excess = limitExceededBy(rules);
    if (excess !== undefined) {
      family.remove(port.key);
      progress.excess ??= new Map();
      progress.excess.set(port.key, excess);
      return true;
    }
    const hasId = () => family.ids.hasFor(port.key, rules.lists.isSticky);
    if (this.#intervalsHoldIds && !hasId()) this.#divideIntervals();
    if (!hasId()) return false;
    // Without visits: a service port with many endpoints would never have any room.
    const room = () => maxWork - this.state.work;
    if (!family.prepareSourceRanges(rules, room())) return false;
    const before = family.servicePortRules(port.key);
    const grown = grownChoice(choice, rules.lists, before?.lists, room());
    progress.excess?.delete(port.key);
    if (grown === choice) {
      family.put(rules);
      return true;
    }
    yield;
    const some = renderServicePort(port, grown, context, before?.port.service);
    yield;
    family.put(some);
    progress.growing = rendered;
    return false;
  }

  *#rendering(
    port: ServicePort,
    slices: SlicesByPort,
    family: FamilyState,
    context: FamilyContext,
  ): Generator<undefined, RenderedPort> {
    const shareOf = drawsIn(context)?.shareOf;
    const endpoints = yield* slices.endpointsOf(port, context.place.name, shareOf);
    const before = family.servicePortRules(port.key)?.port.service;
    const isLong = endpoints.length > FEW;
    if (isLong) yield;
    const choice = chooseEndpoints(port, endpoints, context.place, ejectionFor(port, this.#cache, context));
    if (isLong) yield;
    const rules = renderServicePort(port, choice, context, before);
    if (isLong) yield;
    this.#visits += 1 + endpoints.length;
    return { choice, rules };
  }

  #removePort({ family, key }: ServicePort): void {
    const ofFamily = this.state.families[family];
    const known = ofFamily?.servicePortRules(key)?.port;
    if (known === undefined) return;
    ofFamily?.remove(key);
    this.#intervalsHoldIds ||= known.service.affinitySeconds > 0 && this.#hasIntervals(known);
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
  #served(name: ServiceName, refused: Refused): Served {
    const served = this.state.budgets.served(name) ?? NOT_SERVED;
    const ports = served.ports.filter(
      ({ family, key }) => this.state.families[family] !== undefined && !refused.has(key),
    );
    return ports.length === served.ports.length ? served : { ports, slices: served.slices };
  }

  /** The ports of a Service that a budget keeps from being served, each with the reason; otherwise none. */
  #budgetExcessOf(name: ServiceName): readonly ReasonsOfService[] {
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
