import { endpointsOf } from "../model/endpoint.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { chooseEndpoints } from "../model/topology.ts";
import type { NodeContext } from "./node-context.ts";
import { RulesetState } from "./ruleset-state.ts";
import { renderServicePort, type ServicePortRules } from "./service-port-rules.ts";

/** Keeps a ruleset in step with an object cache: renders again what changed, and nothing else. */
export class Renderer {
  readonly state: RulesetState;
  readonly #cache: ObjectCache;
  readonly #excluded: ReadonlySet<ServicePortKey>;
  #nodeContext: NodeContext;
  /** What each Service has in the state, to find what it lost. */
  readonly #ports = new Map<ServiceName, readonly ServicePort[]>();

  /**
   * @param cache where the objects are; its changes are taken by {@link Renderer.update} alone
   * @param nodeContext one for each family that is to be programmed
   * @param excluded service ports that get no rules, whatever they want; may change before each call
   */
  constructor(cache: ObjectCache, nodeContext: NodeContext, excluded: ReadonlySet<ServicePortKey> = new Set()) {
    this.#cache = cache;
    this.#nodeContext = nodeContext;
    this.#excluded = excluded;
    this.state = new RulesetState(nodeContext);
  }

  /**
   * Takes over other context: all Services are rendered again. The declarations of the sets (counters, the
   * affinity map's size) are fixed for the life of a renderer.
   */
  setNodeContext(nodeContext: NodeContext): void {
    this.#nodeContext = nodeContext;
    for (const context of nodeContext) this.state.families[context.family]?.setContext(context);
    for (const name of this.#names()) this.#renderService(name);
  }

  /**
   * Renders what changed.
   * @param changes from {@link ObjectCache.takeDirty}
   */
  update(changes: ReadonlySet<ServiceName>): void {
    for (const name of [...changes].sort()) this.#renderService(name);
  }

  #names(): ServiceName[] {
    return [...new Set([...this.#cache.serviceNames(), ...this.#ports.keys()])].sort();
  }

  #renderService(name: ServiceName): void {
    const contributions = this.#contributions(name).filter(({ port }) => !this.#excluded.has(port.key));
    const ports = contributions.map(({ port }) => port);
    for (const { family, key } of this.#ports.get(name) ?? []) {
      if (!ports.some((port) => port.key === key)) this.state.families[family]?.remove(key);
    }
    for (const servicePortRules of contributions)
      this.state.families[servicePortRules.port.family]?.put(servicePortRules);
    if (ports.length === 0) this.#ports.delete(name);
    else this.#ports.set(name, ports);
  }

  #contributions(name: ServiceName): ServicePortRules[] {
    const service = this.#cache.service(name);
    if (service === undefined) return [];
    const slices = this.#cache.slices(name);
    return servicePortsOf(service).flatMap((port) => {
      const context = this.#nodeContext.find(({ family }) => family === port.family);
      if (context === undefined) return [];
      const ofFamily = slices.filter((slice) => slice.family === port.family);
      const endpoints = endpointsOf(ofFamily, port.spec, context.place.name);
      return [renderServicePort(port, chooseEndpoints(port, endpoints, context.place), context)];
    });
  }
}
