import { endpointsOf } from "../model/endpoint.ts";
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
  #alsoRendered: ReadonlySet<ServiceName> = new Set();
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
    yield* this.#rendering(this.#names(), excluded);
  }

  /**
   * Renders Services again, one service port in each piece: a Service may have thousands of endpoints at a hundred ports.
   * @param dirty those that changed, themselves or in their slices
   * @param excluded service ports that get no rules
   */
  *updating(dirty: Iterable<ServiceName>, excluded = NONE): Generator<undefined> {
    yield* this.#rendering([...dirty].sort(), excluded);
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

  /** The Services that the last update rendered because others changed, which leave them more or less than before. */
  get alsoRendered(): ReadonlySet<ServiceName> {
    return this.#alsoRendered;
  }

  /** First what goes, then what comes: all list ids may be taken. */
  *#rendering(dirty: readonly ServiceName[], excluded: Excluded): Generator<undefined> {
    const { budgets } = this.state;
    for (const name of dirty) {
      budgets.count(name, this.#cache.service(name), this.#cache.slices(name), this.#nodeContext);
      yield;
    }
    this.#alsoRendered = budgets.decide(this.#nodeContext);
    const names = this.#alsoRendered.size === 0 ? dirty : [...new Set([...dirty, ...this.#alsoRendered])].sort();
    for (const name of names) yield* this.#removeOld(name, excluded);
    if (this.#holdsIds) this.#cutRanges();
    for (const name of names) yield* this.#renderService(name, excluded);
    if (budgets.short !== this.#short)
      for (const name of budgets.short.keys()) this.#setExcess(name, this.#overOf(name));
    this.#short = budgets.short;
    this.#cutRanges();
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
    const before = this.#ports.get(name) ?? [];
    if (before.length === 0) return;
    const wanted = new Map(this.#wantedPorts(name, excluded).map(([port]) => [port.key, port]));
    for (const { family, key, service, spec } of before) {
      const port = wanted.get(key);
      if (port !== undefined && (port.service.affinitySeconds > 0 || service.affinitySeconds === 0)) continue;
      this.state.families[family]?.remove(key);
      this.#holdsIds ||= service.affinitySeconds > 0 && spec.ranges !== undefined;
      yield;
    }
  }

  *#renderService(name: ServiceName, excluded: Excluded): Generator<undefined> {
    const over = this.#overOf(name);
    const slices = this.state.budgets.served(name)?.slices ?? [];
    const ports: ServicePort[] = [];
    for (const [port, context] of this.#wantedPorts(name, excluded)) {
      const endpoints = endpointsOf(slices, port, context.place.name);
      const rules = renderServicePort(port, chooseEndpoints(port, endpoints, context.place), context);
      if (this.#put(rules, over)) ports.push(port);
      yield;
    }
    if (ports.length === 0) this.#ports.delete(name);
    else this.#ports.set(name, ports);
    this.#setExcess(name, over);
  }

  /** The ports of a Service that get rules, with the context of their family. */
  #wantedPorts(name: ServiceName, excluded: Excluded): (readonly [ServicePort, FamilyContext])[] {
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
    return new Map(budgets.unserved(name).flatMap(({ family, key }) => (families[family] ? [[key, reason]] : [])));
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
