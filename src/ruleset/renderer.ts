import { endpointsOf } from "../model/endpoint.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import { type ServicePort, servicePortsOf } from "../model/service-port.ts";
import { chooseEndpoints } from "../model/topology.ts";
import type { World } from "../model/world.ts";
import type { FamilyContext } from "./context.ts";
import { type Contribution, renderServicePort } from "./contribution.ts";
import { RulesetState } from "./state.ts";

/** Keeps a ruleset in step with a world: renders again what changed, and nothing else. */
export class Renderer {
  readonly state: RulesetState;
  readonly #world: World;
  readonly #leftOut: ReadonlySet<ServicePortKey>;
  #contexts: readonly FamilyContext[];
  /** What each Service has in the state, to find what it lost. */
  readonly #ports = new Map<ServiceName, readonly ServicePort[]>();

  /**
   * @param world where the objects are; its changes are taken by {@link Renderer.update} alone
   * @param contexts one for each family that is to be programmed
   * @param leftOut service ports that get no rules, whatever they want; may change before each call
   */
  constructor(world: World, contexts: readonly FamilyContext[], leftOut: ReadonlySet<ServicePortKey> = new Set()) {
    this.#world = world;
    this.#contexts = contexts;
    this.#leftOut = leftOut;
    this.state = new RulesetState(contexts);
  }

  /**
   * Takes over other surroundings: all Services are rendered again. The declarations of the sets (counters, the
   * affinity map's size) are fixed for the life of a renderer.
   */
  setContexts(contexts: readonly FamilyContext[]): void {
    this.#contexts = contexts;
    for (const context of contexts) this.state.families[context.family]?.setContext(context);
    for (const name of this.#names()) this.#renderService(name);
  }

  /**
   * Renders what changed.
   * @param changes from {@link World.takeChanges}
   */
  update(changes: ReadonlySet<ServiceName>): void {
    for (const name of [...changes].sort()) this.#renderService(name);
  }

  #names(): ServiceName[] {
    return [...new Set([...this.#world.serviceNames(), ...this.#ports.keys()])].sort();
  }

  #renderService(name: ServiceName): void {
    const contributions = this.#contributions(name).filter(({ port }) => !this.#leftOut.has(port.key));
    const ports = contributions.map(({ port }) => port);
    for (const { family, key } of this.#ports.get(name) ?? []) {
      if (!ports.some((port) => port.key === key)) this.state.families[family]?.remove(key);
    }
    for (const contribution of contributions) this.state.families[contribution.port.family]?.put(contribution);
    if (ports.length === 0) this.#ports.delete(name);
    else this.#ports.set(name, ports);
  }

  #contributions(name: ServiceName): Contribution[] {
    const service = this.#world.service(name);
    if (service === undefined) return [];
    const slices = this.#world.slices(name);
    return servicePortsOf(service).flatMap((port) => {
      const context = this.#contexts.find(({ family }) => family === port.family);
      if (context === undefined) return [];
      const ofFamily = slices.filter((slice) => slice.family === port.family);
      const endpoints = endpointsOf(ofFamily, port.spec, context.place.name);
      return [renderServicePort(port, chooseEndpoints(port, endpoints, context.place), context)];
    });
  }
}
