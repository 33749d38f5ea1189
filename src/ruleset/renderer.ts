import { endpointsOf } from "../model/endpoint.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { chooseEndpoints } from "../model/topology.ts";
import type { NodeContext } from "./node-context.ts";
import { RulesetState } from "./ruleset-state.ts";
import { renderServicePort, type ServicePortRules } from "./service-port-rules.ts";

/** Keeps a ruleset in step with an object cache: renders the changed Services again, and nothing else. */
export class Renderer {
  readonly state: RulesetState;
  readonly #cache: ObjectCache;
  readonly #excluded: ReadonlySet<ServicePortKey>;
  #nodeContext: NodeContext;
  /** The ports of each Service in the state, to find those that are gone. */
  readonly #ports = new Map<ServiceName, readonly ServicePort[]>();

  /**
   * @param cache the objects; the caller takes its dirty Services and hands them to {@link Renderer.update}
   * @param nodeContext one for each family that is to be programmed
   * @param excluded service ports that get no rules; may change before each call
   */
  constructor(cache: ObjectCache, nodeContext: NodeContext, excluded: ReadonlySet<ServicePortKey> = new Set()) {
    this.#cache = cache;
    this.#nodeContext = nodeContext;
    this.#excluded = excluded;
    this.state = new RulesetState(nodeContext);
  }

  /**
   * Replaces the node context: all Services are rendered again. The declarations of the sets (counters, the
   * affinity map's size) are fixed for the life of a renderer.
   */
  setNodeContext(nodeContext: NodeContext): void {
    this.#nodeContext = nodeContext;
    for (const context of nodeContext) this.state.families[context.family]?.setContext(context);
    for (const name of this.#names()) this.#renderService(name);
  }

  /**
   * Renders the changed Services.
   * @param changes from {@link ObjectCache.takeDirty}
   */
  update(changes: ReadonlySet<ServiceName>): void {
    for (const name of [...changes].sort()) this.#renderService(name);
  }

  #names(): ServiceName[] {
    return [...new Set([...this.#cache.serviceNames(), ...this.#ports.keys()])].sort();
  }

  #renderService(name: ServiceName): void {
    const rules = this.#rulesOf(name).filter(({ port }) => !this.#excluded.has(port.key));
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
