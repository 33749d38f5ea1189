import { endpointsOf } from "../model/endpoint.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Service } from "../model/service.ts";
import { excessText } from "../model/service-budget.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { chooseEndpoints } from "../model/topology.ts";
import { serviceExcess } from "./element-count.ts";
import { MOST_STICKY_PORTS } from "./list-ids.ts";
import { contextOf, type FamilyContext, type NodeContext } from "./node-context.ts";
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
   * Takes over another node context and renders all Services again, in pieces as {@link Renderer.updating}. The declarations of
   * the sets (counters, the affinity map's size) are fixed for the life of a renderer.
   * @param excluded service ports that get no rules
   */
  *changingContext(nodeContext: NodeContext, excluded = NONE): Generator<undefined> {
    this.#nodeContext = nodeContext;
    for (const context of nodeContext) this.state.families[context.family]?.setContext(context);
    for (const name of this.#names()) yield* this.#renderService(name, excluded);
    this.#cutRanges();
  }

  /**
   * Renders Services again, one service port in each piece: a Service may have thousands of endpoints at a hundred ports.
   * @param dirty those that changed, themselves or in their slices
   * @param excluded service ports that get no rules
   */
  *updating(dirty: Iterable<ServiceName>, excluded = NONE): Generator<undefined> {
    for (const name of [...dirty].sort()) yield* this.#renderService(name, excluded);
    this.#cutRanges();
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

  #cutRanges(): void {
    for (const state of Object.values(this.state.families)) state?.cutRanges();
  }

  #names(): ServiceName[] {
    return [...new Set([...this.#cache.serviceNames(), ...this.#ports.keys()])].sort();
  }

  *#renderService(name: ServiceName, excluded: Excluded): Generator<undefined> {
    const service = this.#cache.service(name);
    const slices = this.#cache.slices(name);
    const excess = service && serviceExcess(service, slices, this.#nodeContext);
    const wanted = service === undefined || excess !== undefined ? [] : this.#portsOf(service, excluded);
    const kept = new Set(wanted.map(([{ key }]) => key));
    for (const { family, key } of this.#ports.get(name) ?? []) {
      if (kept.has(key)) continue;
      this.state.families[family]?.remove(key);
      yield;
    }
    const over = new Map<ServicePortKey, string>();
    if (service !== undefined && excess !== undefined) {
      const reason = excessText(excess);
      for (const { family, key } of servicePortsOf(service)) if (this.state.families[family]) over.set(key, reason);
    }
    const ports: ServicePort[] = [];
    for (const [port, context] of wanted) {
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
  #portsOf(service: Service, excluded: Excluded): (readonly [ServicePort, FamilyContext])[] {
    return servicePortsOf(service).flatMap((port) => {
      const context = contextOf(this.#nodeContext, port.family);
      return context === undefined || excluded.has(port.key) ? [] : [[port, context] as const];
    });
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
}
