import { endpointsOf } from "../model/endpoint.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { chooseEndpoints } from "../model/topology.ts";
import type { NodeContext } from "./node-context.ts";
import { RulesetState } from "./ruleset-state.ts";
import { renderServicePort, type ServicePortRules } from "./service-port-rules.ts";

const NONE: ReadonlySet<ServicePortKey> = new Set();

/** Keeps a ruleset in step with an object cache: renders again what changed, and nothing else. */
export class Renderer {
  readonly state: RulesetState;
  readonly #cache: ObjectCache;
  #nodeContext: NodeContext;
  /** The service ports of each Service in the state, to find those that it lost. */
  readonly #ports = new Map<ServiceName, readonly ServicePort[]>();

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

  #names(): ServiceName[] {
    return [...new Set([...this.#cache.serviceNames(), ...this.#ports.keys()])].sort();
  }

  #renderService(name: ServiceName, excluded: ReadonlySet<ServicePortKey>): void {
    const rules = this.#rulesOf(name).filter(({ port }) => !excluded.has(port.key));
    const ports = rules.map(({ port }) => port);
    for (const { family, key } of this.#ports.get(name) ?? []) {
      if (!ports.some((port) => port.key === key)) this.state.families[family]?.remove(key);
    }
    for (const each of rules) this.state.families[each.port.family]?.put(each);
    if (ports.length === 0) this.#ports.delete(name);
    else this.#ports.set(name, ports);
  }

  #rulesOf(name: ServiceName): ServicePortRules[] {
    const service = this.#cache.service(name);
    if (service === undefined) return [];
    const slices = this.#cache.slices(name);
    return servicePortsOf(service).flatMap((port) => {
      const context = this.#nodeContext.find(({ family }) => family === port.family);
      if (context === undefined) return [];
      const endpoints = endpointsOf(slices, port, context.place.name);
      return [renderServicePort(port, chooseEndpoints(port, endpoints, context.place), context)];
    });
  }
}
