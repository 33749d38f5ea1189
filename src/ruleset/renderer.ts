import { endpointsOf } from "../model/endpoint.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { excessText } from "../model/service-budget.ts";
import type { ServicePort } from "../model/service-port.ts";
import { chooseEndpoints } from "../model/topology.ts";
import { contextOf, type FamilyContext, type NodeContext } from "./node-context.ts";
import { RulesetState } from "./ruleset-state.ts";
import { excessOf, renderServicePort, type ServicePortRules } from "./service-port-rules.ts";

/** Service ports that get no rules. */
type Excluded = Pick<ReadonlySet<ServicePortKey>, "has">;

const NONE: Excluded = new Set();

/** What is done of a Service whose rules are rendered in several updates. */
interface Progress {
  /** The most elements that the Service has had since its rules were complete: one that is deleted takes as long as it did to come. */
  readonly elements: number;
  /** The service ports that have their rules. */
  readonly done: Set<ServicePortKey>;
  /** Those that got none, with the limit that they exceed. */
  readonly over: Map<ServicePortKey, string>;
}

function newProgress(elements = 0): Progress {
  return { elements, done: new Set(), over: new Map() };
}

/** The service ports of a Service in the state. */
type KnownPorts = Map<ServicePortKey, ServicePort>;

/** A service port that gets rules, with the context of its family. */
type WantedPort = readonly [port: ServicePort, context: FamilyContext];

/** Keeps a ruleset in step with an object cache: renders again what changed, and nothing else. */
export class Renderer {
  readonly state: RulesetState;
  readonly #cache: ObjectCache;
  #nodeContext: NodeContext;
  /** The service ports of each Service in the state, to find those that it lost. */
  readonly #ports = new Map<ServiceName, readonly ServicePort[]>();
  /** By Service, its ports that got no rules, with the limit that they exceed. */
  readonly #excessOf = new Map<ServiceName, ReadonlyMap<ServicePortKey, string>>();
  /** Those of all Services; undefined after a change. */
  #excess: ReadonlyMap<ServicePortKey, string> | undefined;
  /** The Services for which older ones leave too little, as of the last update. */
  #short: ReadonlyMap<ServiceName, unknown> = new Map();
  #rendered = new Set<ServiceName>();
  /** The Services that changed and whose rules are not complete, with what is done of them. */
  readonly #waiting = new Map<ServiceName, Progress>();
  /** Service ports with session affinity were taken out whose ranges have their list ids until ranges are cut. */
  #holdsIds = false;

  constructor(cache: ObjectCache, nodeContext: NodeContext) {
    this.#cache = cache;
    this.#nodeContext = nodeContext;
    this.state = new RulesetState(nodeContext);
  }

  /**
   * Takes over another node context and renders all Services again, in pieces as {@link Renderer.updating}. The declarations of
   * the sets (counters, the affinity map's size) are fixed for the life of a renderer.
   * @param excluded service ports that get no rules
   */
  *changingContext(nodeContext: NodeContext, excluded = NONE): Generator<undefined> {
    this.#nodeContext = nodeContext;
    for (const context of nodeContext) this.state.families[context.family]?.setContext(context);
    yield* this.#rendering(this.#names(), excluded, Number.POSITIVE_INFINITY);
  }

  /**
   * Renders Services again, one service port in each piece: a Service may have thousands of endpoints at a hundred ports.
   * @param dirty those that changed, themselves or in their slices
   * @param excluded service ports that get no rules
   * @param most elements that may be written, and one service port more; what is left then waits for the next call
   */
  *updating(
    dirty: Iterable<ServiceName>,
    excluded = NONE,
    most = Number.POSITIVE_INFINITY,
  ): Generator<undefined> {
    yield* this.#rendering([...dirty].sort(), excluded, most);
  }

  /** As {@link Renderer.updating}, at once. */
  update(dirty: Iterable<ServiceName>, excluded = NONE): void {
    for (const _ of this.updating(dirty, excluded));
  }

  /** The service ports without rules because they exceed a limit, each with the reason; another map where that changed. */
  get excess(): ReadonlyMap<ServicePortKey, string> {
    this.#excess ??= new Map([...this.#excessOf.values()].flatMap((each) => [...each]));
    return this.#excess;
  }

  /** The Services whose rules the last update completed: those that it was told of, and others to which these leave more or less. */
  get rendered(): ReadonlySet<ServiceName> {
    return this.#rendered;
  }

  /** The Services that changed and whose rules are not complete yet, the one that waits for longest first. */
  get waiting(): ReadonlySet<ServiceName> {
    return new Set(this.#waiting.keys());
  }

  *#rendering(dirty: readonly ServiceName[], excluded: Excluded, most: number): Generator<undefined> {
    const { budgets } = this.state;
    for (const name of dirty) {
      this.#wait(name, budgets.elementsOf(name));
      budgets.count(name, this.#cache.service(name), this.#cache.slices(name), this.#nodeContext);
      yield;
    }
    for (const name of [...dirty, ...budgets.decide(this.#nodeContext)])
      this.#wait(name, budgets.elementsOf(name));
    this.#rendered = new Set();
    yield* most === Number.POSITIVE_INFINITY ? this.#renderAll(excluded) : this.#renderSome(excluded, most);
    if (budgets.short !== this.#short)
      for (const name of budgets.short.keys()) this.#setExcess(name, this.#overOf(name));
    this.#short = budgets.short;
    this.#cutRanges();
  }

  /** Notes that the rules of a Service are to be rendered from the beginning. It keeps its place. */
  #wait(name: ServiceName, elements: number): void {
    this.#waiting.set(name, newProgress(Math.max(elements, this.#waiting.get(name)?.elements ?? 0)));
  }

  /** First what goes, then what comes: all list ids may be taken. */
  *#renderAll(excluded: Excluded): Generator<undefined> {
    const names = [...this.#waiting.keys()].sort();
    for (const name of names) yield* this.#removeOld(name, excluded);
    if (this.#holdsIds) this.#cutRanges();
    for (const name of names) yield* this.#renderService(name, excluded, Number.POSITIVE_INFINITY);
  }

  /**
   * Renders until so many elements are written. Half of them are for the Services with the fewest elements, so that nobody waits for
   * another one that is large; the rest are for the one that has waited for longest, which so comes to an end.
   */
  *#renderSome(excluded: Excluded, most: number): Generator<undefined> {
    const oldestFirst = [...this.#waiting.keys()];
    const smallestFirst = [...this.#waiting]
      .sort(([, a], [, b]) => a.elements - b.elements)
      .map(([name]) => name);
    for (const [names, limit] of [
      [smallestFirst, most / 2],
      [oldestFirst, most],
    ] as const) {
      for (const name of names) {
        if (this.state.writtenElements >= limit) break;
        if (!this.#waiting.has(name)) continue;
        yield* this.#renderService(name, excluded, limit);
        this.#cutRanges();
      }
    }
  }

  #cutRanges(): void {
    this.#holdsIds = false;
    for (const state of Object.values(this.state.families)) state?.cutRanges();
  }

  #names(): ServiceName[] {
    return [...new Set([...this.#cache.serviceNames(), ...this.#ports.keys()])].sort();
  }

  /** Takes out the ports that a Service has lost, and those whose list id is to be one without session affinity. */
  *#removeOld(name: ServiceName, excluded: Excluded): Generator<undefined> {
    const known = this.#knownPorts(name);
    if (known.size === 0) return;
    const wanted = new Map(this.#wantedPorts(name, excluded).map(([port]) => [port.key, port]));
    for (const port of [...known.values()]) {
      const after = wanted.get(port.key);
      if (after !== undefined && !losesAffinity(port, after)) continue;
      this.#take(port, known);
      yield;
    }
    this.#setPorts(name, known);
  }

  #knownPorts(name: ServiceName): KnownPorts {
    return new Map((this.#ports.get(name) ?? []).map((port) => [port.key, port]));
  }

  /** Renders the service ports of a Service that are not yet; stops between two of them when so many elements are written. */
  *#renderService(name: ServiceName, excluded: Excluded, most: number): Generator<undefined> {
    const progress = this.#waiting.get(name) ?? newProgress();
    const wanted = this.#wantedPorts(name, excluded);
    const keys = new Set(wanted.map(([{ key }]) => key));
    const known = this.#knownPorts(name);
    const gone = [...known.values()].filter(({ key }) => !keys.has(key));
    const rest = wanted.filter(([{ key }]) => !progress.done.has(key));
    const slices = this.state.budgets.served(name)?.slices ?? [];
    const rulesOf = ([port, context]: WantedPort) => rulesFor(port, slices, context);
    const steps = [
      ...gone.map((port) => () => this.#take(port, known)),
      ...rest.map((one) => () => this.#replacePort(rulesOf(one), known, progress)),
    ];
    for (const step of steps) {
      if (this.state.writtenElements >= most) {
        this.#setPorts(name, known);
        return;
      }
      step();
      yield;
    }
    this.#setPorts(name, known);
    this.#setExcess(name, new Map([...this.#overOf(name), ...progress.over]));
    this.#waiting.delete(name);
    this.#rendered.add(name);
  }

  #replacePort(rules: ServicePortRules, known: KnownPorts, { done, over }: Progress): void {
    const { port } = rules;
    const before = known.get(port.key);
    if (before !== undefined && losesAffinity(before, port)) {
      this.#take(before, known);
      if (this.#holdsIds) this.#cutRanges();
    }
    if (this.#put(rules, over)) known.set(port.key, port);
    else known.delete(port.key);
    done.add(port.key);
  }

  /** Takes a service port out. */
  #take({ family, key, service, spec }: ServicePort, known: KnownPorts): void {
    this.state.families[family]?.remove(key);
    known.delete(key);
    this.#holdsIds ||= service.affinitySeconds > 0 && spec.ranges !== undefined;
  }

  #setPorts(name: ServiceName, known: KnownPorts): void {
    if (known.size === 0) this.#ports.delete(name);
    else this.#ports.set(name, [...known.values()]);
  }

  /** The ports of a Service that get rules, with the context of their family. */
  #wantedPorts(name: ServiceName, excluded: Excluded): WantedPort[] {
    return (this.state.budgets.served(name)?.ports ?? []).flatMap((port) => {
      const context = contextOf(this.#nodeContext, port.family);
      return context === undefined || excluded.has(port.key) ? [] : [[port, context] as const];
    });
  }

  /** The ports of a Service that is not served, with the reason; none for one that is. */
  #overOf(name: ServiceName): Map<ServicePortKey, string> {
    const { budgets, families } = this.state;
    const excess = budgets.excessOf(name);
    if (excess === undefined) return new Map();
    const reason = excessText(excess);
    return new Map(
      budgets.unserved(name).flatMap(({ family, key }) => (families[family] ? [[key, reason]] : [])),
    );
  }

  /** Puts rules into the state. @returns false for a service port that exceeds a limit: it gets none, and a place in `over` */
  #put(rules: ServicePortRules, over: Map<ServicePortKey, string>): boolean {
    const { family, key } = rules.port;
    const excess = excessOf(rules);
    if (excess === undefined) this.state.families[family]?.put(rules);
    else {
      this.state.families[family]?.remove(key);
      over.set(key, excess);
    }
    return excess === undefined;
  }

  #setExcess(name: ServiceName, over: ReadonlyMap<ServicePortKey, string>): void {
    if (over.size > 0) this.#excessOf.set(name, over);
    else if (!this.#excessOf.delete(name)) return;
    this.#excess = undefined;
  }
}

/** Whether the list id of a service port is to be one without session affinity, as it was not. */
function losesAffinity(before: ServicePort, after: ServicePort): boolean {
  return before.service.affinitySeconds > 0 && after.service.affinitySeconds === 0;
}

function rulesFor(
  port: ServicePort,
  slices: readonly EndpointSlice[],
  context: FamilyContext,
): ServicePortRules {
  const endpoints = endpointsOf(slices, port, context.place.name);
  return renderServicePort(port, chooseEndpoints(port, endpoints, context.place), context);
}
