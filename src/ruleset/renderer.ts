import { endpointsOf } from "../model/endpoint.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { excessText } from "../model/service-budget.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { chooseEndpoints } from "../model/topology.ts";
import { serviceExcess } from "./element-count.ts";
import { MOST_STICKY_PORTS } from "./list-ids.ts";
import { contextOf, type NodeContext } from "./node-context.ts";
import { RulesetState } from "./ruleset-state.ts";
import { excessOf, renderServicePort, type ServicePortRules } from "./service-port-rules.ts";

/** Service ports that get no rules. */
type Excluded = Pick<ReadonlySet<ServicePortKey>, "has">;

const NONE: Excluded = new Set();

const NO_ID_LEFT = `no more than ${MOST_STICKY_PORTS} Service ports can have session affinity`;

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

  constructor(cache: ObjectCache, nodeContext: NodeContext) {
    this.#cache = cache;
    this.#nodeContext = nodeContext;
    this.state = new RulesetState(nodeContext);
  }

  /**
   * Takes over another node context and renders all Services again. The declarations of the sets (counters, the
   * affinity map's size) are fixed for the life of a renderer.
   * @param excluded service ports that get no rules
   */
  setNodeContext(nodeContext: NodeContext, excluded = NONE): void {
    this.#nodeContext = nodeContext;
    for (const context of nodeContext) this.state.families[context.family]?.setContext(context);
    for (const name of this.#names()) this.#renderService(name, excluded);
  }

  /**
   * Renders Services again.
   * @param dirty those that changed, themselves or in their slices
   * @param excluded service ports that get no rules
   */
  update(dirty: Iterable<ServiceName>, excluded = NONE): void {
    for (const name of [...dirty].sort()) this.#renderService(name, excluded);
  }

  /** The service ports without rules because they exceed a limit, each with the reason; another map where that changed. */
  get excess(): ReadonlyMap<ServicePortKey, string> {
    this.#excess ??= new Map([...this.#excessOf.values()].flatMap((each) => [...each]));
    return this.#excess;
  }

  #names(): ServiceName[] {
    return [...new Set([...this.#cache.serviceNames(), ...this.#ports.keys()])].sort();
  }

  #renderService(name: ServiceName, excluded: Excluded): void {
    const service = this.#cache.service(name);
    const excess = service && serviceExcess(service, this.#cache.slices(name), this.#nodeContext);
    const rules = excess === undefined ? this.#rulesOf(name).filter(({ port }) => !excluded.has(port.key)) : [];
    const kept = new Set(rules.map(({ port }) => port.key));
    for (const { family, key } of this.#ports.get(name) ?? []) {
      if (!kept.has(key)) this.state.families[family]?.remove(key);
    }
    const over = new Map<ServicePortKey, string>();
    if (service !== undefined && excess !== undefined) {
      const reason = excessText(excess);
      for (const { family, key } of servicePortsOf(service)) if (this.state.families[family]) over.set(key, reason);
    }
    const ports = rules.flatMap((each) => (this.#put(each, over) ? [each.port] : []));
    if (ports.length === 0) this.#ports.delete(name);
    else this.#ports.set(name, ports);
    this.#setExcess(name, over);
  }

  /** Puts rules into the state. @returns false for a service port that exceeds a limit: it gets none, and a place in `over` */
  #put(rules: ServicePortRules, over: Map<ServicePortKey, string>): boolean {
    const { family, key } = rules.port;
    const state = this.state.families[family];
    const excess = excessOf(rules) ?? (state?.hasIdFor(rules) === false ? NO_ID_LEFT : undefined);
    if (excess === undefined) state?.put(rules);
    else {
      state?.remove(key);
      over.set(key, excess);
    }
    return excess === undefined;
  }

  #setExcess(name: ServiceName, over: ReadonlyMap<ServicePortKey, string>): void {
    if (over.size > 0) this.#excessOf.set(name, over);
    else if (!this.#excessOf.delete(name)) return;
    this.#excess = undefined;
  }

  #rulesOf(name: ServiceName): ServicePortRules[] {
    const service = this.#cache.service(name);
    if (service === undefined) return [];
    const slices = this.#cache.slices(name);
    return servicePortsOf(service).flatMap((port) => {
      const context = contextOf(this.#nodeContext, port.family);
      if (context === undefined) return [];
      const endpoints = endpointsOf(slices, port, context.place.name);
      return [renderServicePort(port, chooseEndpoints(port, endpoints, context.place), context)];
    });
  }
}
